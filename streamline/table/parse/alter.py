"""ALTER and DROP."""

from __future__ import annotations

from typing import Literal

from streamline.table.parse import statements as st
from streamline.table.parse.ddl import UNSUPPORTED_OBJECTS, DdlParser, Definitions

__all__ = ("AlterParser",)


class AlterParser(DdlParser):
    """Reads ALTER and DROP statements."""

    # -- DROP ------------------------------------------------------------------------------------------------------

    def drop(self) -> st.Statement:
        start = self.at
        self.need("DROP")
        temporary = self.take("TEMPORARY")
        system = temporary and self.take("SYSTEM")
        if self.token.key in UNSUPPORTED_OBJECTS:
            self.unsupported(start, f"DROP {self.token.key}" + (" TABLE" if self.token.key == "MATERIALIZED" else ""))
        kind: Literal["CATALOG", "DATABASE", "TABLE", "VIEW", "FUNCTION"]
        if system:
            self.need("FUNCTION")
            kind = "FUNCTION"
        elif self.take("TABLE"):
            kind = "TABLE"
        elif self.take("VIEW"):
            kind = "VIEW"
        elif self.take("FUNCTION"):
            kind = "FUNCTION"
        elif not temporary and self.take("CATALOG"):
            kind = "CATALOG"
        elif not temporary and self.take("DATABASE"):
            kind = "DATABASE"
        else:
            self.fail()
        if_exists = self.if_exists()
        path = self.path()
        cascade = kind == "DATABASE" and self.take_one("RESTRICT", "CASCADE") == "CASCADE"
        return st.Drop(kind, path, if_exists, temporary, system, cascade)

    # -- ALTER -----------------------------------------------------------------------------------------------------

    def alter(self) -> st.Statement:
        start = self.at
        self.need("ALTER")
        if self.take("TABLE"):
            if_exists = self.if_exists()
            path = self.path()
            return st.AlterTable(path, self._table_actions(), if_exists)
        if self.take("VIEW"):
            path = self.path()
            if self.need_one("RENAME", "AS") == "RENAME":
                self.need("TO")
                return st.AlterView(path, st.RenameTo(self.path()))
            return st.AlterView(path, st.SetQuery(self.sql_query()))
        if self.take("DATABASE"):
            path = self.path()
            self.need("SET")
            return st.AlterDatabase(path, st.SetOptions(self.options()))
        if self.take("CATALOG"):
            name = self.name()
            return st.AlterCatalog(name, self._catalog_action())
        temporary = self.take("TEMPORARY")
        system = temporary and self.take("SYSTEM")
        if self.take("FUNCTION"):
            return self._alter_function(temporary, system)
        if not temporary and self.token.key in UNSUPPORTED_OBJECTS:
            self.unsupported(start, f"ALTER {self.token.key}" + (" TABLE" if self.token.key == "MATERIALIZED" else ""))
        return self.fail()

    def _catalog_action(self) -> st.AlterAction:
        match self.need_one("SET", "RESET", "COMMENT"):
            case "SET":
                return st.SetOptions(self.options())
            case "RESET":
                return st.ResetOptions(self.keys())
            case _:
                return st.SetComment(self.string())

    def _alter_function(self, temporary: bool, system: bool) -> st.Statement:
        if_exists = self.if_exists()
        path = self.path()
        self.need("AS")
        identifier = self.string()
        language = self.need_one("JAVA", "SCALA", "SQL", "PYTHON") if self.take("LANGUAGE") else None
        return st.AlterFunction(path, identifier, language, if_exists, temporary, system)

    def _table_actions(self) -> tuple[st.AlterAction, ...]:
        match self.need_one("RENAME", "SET", "RESET", "ADD", "MODIFY", "DROP"):
            case "RENAME":
                if self.take("TO"):
                    return (st.RenameTo(self.path()),)
                column = self.path()
                self.need("TO")
                return (st.RenameColumn(column, self.name()),)
            case "SET":
                return (st.SetOptions(self.options()),)
            case "RESET":
                return (st.ResetOptions(self.keys()),)
            case "ADD":
                return self._add()
            case "MODIFY":
                return self._modify()
            case _:
                return (self._drop_part(),)

    def _definitions(self) -> Definitions:
        """One definition, or several in brackets."""
        found = Definitions()
        if self.token.key == "(":
            self.in_parens(lambda: self.definition(found, positions=True))
        else:
            self.definition(found, positions=True)
        return found

    def _add(self) -> tuple[st.AlterAction, ...]:
        if_not_exists = self.if_not_exists()
        if if_not_exists or self.next_is("PARTITION"):
            partitions: list[tuple[st.Partition, dict[str, str]]] = []
            while not partitions or self.token.key == "PARTITION":
                self.need("PARTITION")
                partition = self.partition()
                partitions.append((partition, self.with_options()))
            return (st.AddPartitions(tuple(partitions), if_not_exists),)
        if self.take("DISTRIBUTION"):
            return (st.AddDistribution(self.distribution()),)
        found = self._definitions()
        actions: list[st.AlterAction] = []
        if found.columns:
            actions.append(st.AddColumns(tuple(found.columns)))
        if found.primary_key is not None:
            actions.append(st.AddPrimaryKey(found.primary_key))
        actions.extend(st.AddWatermark(w) for w in found.watermarks)
        return tuple(actions)

    def _modify(self) -> tuple[st.AlterAction, ...]:
        if self.take("DISTRIBUTION"):
            return (st.ModifyDistribution(self.distribution()),)
        found = self._definitions()
        actions: list[st.AlterAction] = []
        if found.columns:
            actions.append(st.ModifyColumns(tuple(found.columns)))
        if found.primary_key is not None:
            actions.append(st.ModifyPrimaryKey(found.primary_key))
        actions.extend(st.ModifyWatermark(w) for w in found.watermarks)
        return tuple(actions)

    def _drop_part(self) -> st.AlterAction:
        if self.take("PRIMARY"):
            self.need("KEY")
            return st.DropConstraint()
        if self.take("CONSTRAINT"):
            return st.DropConstraint(self.name())
        if self.take("WATERMARK"):
            return st.DropWatermark()
        if self.take("DISTRIBUTION"):
            return st.DropDistribution()
        if_exists = self.if_exists()
        if if_exists or self.next_is("PARTITION"):
            return st.DropPartitions(tuple(self.comma_list(self._dropped_partition)), if_exists)
        if self.token.key == "(":
            return st.DropColumns(tuple(self.in_parens(self.path)))
        return st.DropColumns((self.path(),))

    def _dropped_partition(self) -> st.Partition:
        self.need("PARTITION")
        return self.partition()
