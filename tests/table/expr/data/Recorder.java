import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.BooleanNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.NullNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.TextNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Evaluates expressions with Flink; see README.md. */
public class Recorder {
    static final ObjectMapper JSON = new ObjectMapper();

    static JsonNode value(Object v) {
        if (v == null) {
            return NullNode.instance;
        }
        if (v instanceof Boolean) {
            return BooleanNode.valueOf((Boolean) v);
        }
        if (v instanceof byte[]) {
            StringBuilder hex = new StringBuilder("0x");
            for (byte x : (byte[]) v) {
                hex.append(String.format("%02x", x));
            }
            return TextNode.valueOf(hex.toString());
        }
        ArrayNode items = JSON.createArrayNode();
        if (v.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(v); i++) {
                items.add(value(Array.get(v, i)));
            }
        } else if (v instanceof Map) {
            for (Map.Entry<?, ?> e : ((Map<?, ?>) v).entrySet()) {
                items.add(JSON.createArrayNode().add(value(e.getKey())).add(value(e.getValue())));
            }
        } else if (v instanceof Row) {
            for (int i = 0; i < ((Row) v).getArity(); i++) {
                items.add(value(((Row) v).getField(i)));
            }
        } else {
            return TextNode.valueOf(String.valueOf(v));
        }
        return items;
    }

    static StreamTableEnvironment environment(JsonNode group, StringBuilder from) {
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", "0");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(1);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("table.local-time-zone", "UTC");
        if (group.has("config")) {
            Iterator<Map.Entry<String, JsonNode>> it = group.get("config").fields();
            while (it.hasNext()) {
                Map.Entry<String, JsonNode> e = it.next();
                tables.getConfig().set(e.getKey(), e.getValue().asText());
            }
        }
        int width = group.get("types").size();
        List<Row> rows = new ArrayList<>();
        for (JsonNode r : group.get("rows")) {
            Row row = new Row(width);
            for (int i = 0; i < width; i++) {
                row.setField(i, r.get(i).isNull() ? null : r.get(i).asText());
            }
            rows.add(row);
        }
        TypeInformation<?>[] texts = new TypeInformation<?>[width];
        Arrays.fill(texts, Types.STRING);
        String[] names = new String[width];
        for (int i = 0; i < width; i++) {
            names[i] = "s" + i;
            String type = group.get("types").get(i).asText();
            from.append(i > 0 ? ", " : "(SELECT ").append("CAST(s" + i + " AS " + type + ") AS " + (char) ('a' + i));
        }
        tables.createTemporaryView("src", env.fromCollection(rows, new RowTypeInfo(texts, names)));
        from.append(" FROM src)");
        return tables;
    }

    /** Adds an answer for each expression: [expression, type, values], or [expression, null, message]. */
    static void answer(JsonNode group, List<String> expressions, List<ArrayNode> answers) {
        try {
            StringBuilder from = new StringBuilder();
            StreamTableEnvironment tables = environment(group, from);
            Table table = tables.sqlQuery("SELECT " + String.join(", ", expressions) + " FROM " + from);
            List<ArrayNode> found = new ArrayList<>();
            List<ArrayNode> values = new ArrayList<>();
            int at = 0;
            for (Column column : table.getResolvedSchema().getColumns()) {
                ArrayNode one = JSON.createArrayNode().add(expressions.get(at++));
                found.add(one.add(column.getDataType().getLogicalType().asSummaryString()));
                values.add(one.addArray());
            }
            if (at != expressions.size()) {
                throw new IllegalStateException("not one column for each expression");
            }
            try (CloseableIterator<Row> rows = table.execute().collect()) {
                while (rows.hasNext()) {
                    Row row = rows.next();
                    for (int i = 0; i < at; i++) {
                        values.get(i).add(value(row.getField(i)));
                    }
                }
            }
            answers.addAll(found);
        } catch (Throwable e) {
            int half = expressions.size() / 2;
            if (half > 0) {
                answer(group, expressions.subList(0, half), answers);
                answer(group, expressions.subList(half, expressions.size()), answers);
                return;
            }
            while (e.getCause() != null) {
                e = e.getCause();
            }
            String message = e.getClass().getSimpleName() + ": " + e.getMessage();
            String shown = message.substring(0, Math.min(message.length(), 160));
            answers.add(JSON.createArrayNode().add(expressions.get(0)).addNull().add(shown));
        }
    }

    static void flush(JsonNode group, List<String> expressions, PrintStream out) throws Exception {
        List<ArrayNode> answers = new ArrayList<>();
        if (!expressions.isEmpty()) {
            answer(group, expressions, answers);
        }
        for (ArrayNode one : answers) {
            out.println(JSON.writeValueAsString(one));
        }
        expressions.clear();
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode group = null;
        List<String> expressions = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode node = JSON.readTree(line);
            if (node.isObject() || expressions.size() == 40) {
                flush(group, expressions, out);
            }
            if (node.isObject()) {
                group = node;
                out.println(line);
            } else {
                expressions.add(node.get(0).asText());
            }
        }
        flush(group, expressions, out);
        System.exit(0);
    }
}
