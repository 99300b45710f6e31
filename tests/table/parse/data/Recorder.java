import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.calcite.config.Lex;
import org.apache.calcite.sql.SqlCall;
import org.apache.calcite.sql.SqlIdentifier;
import org.apache.calcite.sql.SqlNode;
import org.apache.calcite.sql.SqlNodeList;
import org.apache.calcite.sql.parser.SqlParser;
import org.apache.flink.sql.parser.impl.FlinkSqlParserImpl;
import org.apache.flink.sql.parser.validate.FlinkSqlConformance;

/** Asks Flink's parser; see README.md. */
public class Recorder {
    static void tree(SqlNode node, StringBuilder out) {
        if (node == null) {
            out.append("_");
        } else if (node instanceof SqlNodeList) {
            out.append("[");
            String gap = "";
            for (SqlNode item : (SqlNodeList) node) {
                out.append(gap);
                tree(item, out);
                gap = " ";
            }
            out.append("]");
        } else if (node instanceof SqlIdentifier) {
            out.append(String.join(".", ((SqlIdentifier) node).names));
        } else if (node instanceof SqlCall) {
            SqlCall call = (SqlCall) node;
            out.append("(").append(call.getOperator().getName().replace(' ', '_'));
            for (SqlNode operand : call.getOperandList()) {
                out.append(" ");
                tree(operand, out);
            }
            out.append(")");
        } else {
            out.append(node);
        }
    }

    public static void main(String[] args) throws Exception {
        SqlParser.Config config = SqlParser.config()
            .withParserFactory(FlinkSqlParserImpl.FACTORY)
            .withConformance(FlinkSqlConformance.DEFAULT)
            .withLex(Lex.JAVA)
            .withIdentifierMaxLength(256);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 2);
            StringBuilder answer = new StringBuilder();
            try {
                SqlParser parser = SqlParser.create(parts[1].replace("\\n", "\n"), config);
                tree(parts[0].equals("e") ? parser.parseExpression() : parser.parseStmtList(), answer);
                out.println("ok\t" + answer);
            } catch (Exception refused) {
                out.println("error\t" + String.valueOf(refused.getMessage()).replace("\n", " "));
            }
        }
    }
}
