"""The programs of the fourth document: the same conversions as methods of streams and tables."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from streamline import Row, RowKind, TableException, Types, ValidationException
from streamline.table import ChangelogMode, col

from .common import NAME_AGE, PEOPLE, Person, envs, rows, texts
from .test_001 import KEYED

pytestmark = pytest.mark.filterwarnings("ignore:conversions that never ran")


async def p37(*how: Any) -> Any:
    env, t_env = envs()
    t = env.from_elements(("Alice", 25), ("Bob", 30)).to_table(t_env, *how)
    return t.get_schema().get_field_names(), texts(await rows(t_env.to_data_stream(t)))


async def test_p37_fluent_conversion() -> None:
    same = ["+I[Alice, 25]", "+I[Bob, 30]"]
    assert await p37() == (["f0", "f1"], same)
    assert await p37(NAME_AGE) == (["name", "age"], same)
    assert await p37(col("name"), col("age")) == (["name", "age"], same)


async def test_p37_the_way_out_and_other_environments() -> None:
    env, t_env = envs()
    t = env.from_elements(("Alice", 25)).to_table(t_env)
    assert texts(await rows(t.to_data_stream())) == ["+I[Alice, 25]"]
    assert await rows(t.to_data_stream(Person)) == [Person("Alice", 25)]
    assert texts(await rows(t.to_changelog_stream())) == ["+I[Alice, 25]"]
    _, other = envs()
    with pytest.raises(ValidationException):
        env.from_elements(("Alice", 25)).to_table(other)


async def p38(*how: Any, query: str = "SELECT * FROM people") -> Any:
    env, t_env = envs()
    log = env.from_elements(
        Row.of(RowKind.INSERT, "Alice", 25),
        Row.of(RowKind.UPDATE_AFTER, "Alice", 26),
        Row.of(RowKind.DELETE, "Bob", 30),
    )
    t_env.create_temporary_view("people", log.to_changelog_table(t_env, *how))
    return texts(await rows(t_env.to_changelog_stream(t_env.sql_query(query))))


async def test_p38_passed_on_unchecked() -> None:
    expected = ["+I[Alice, 25]", "+U[Alice, 26]", "-D[Bob, 30]"]
    assert await p38() == expected
    assert await p38(NAME_AGE) == expected


async def test_p38_counts() -> None:
    found = await p38(NAME_AGE, query="SELECT name, COUNT(*) AS n FROM people GROUP BY name")
    assert found == ["+I[Alice, 1]", "-U[Alice, 1]", "+U[Alice, 2]"]


async def test_p38_insert_only_as_written() -> None:
    with pytest.raises(TableException) as e:
        await p38(NAME_AGE, ChangelogMode.insert_only())
    text = "\n".join([str(e.value), *getattr(e.value, "__notes__", [])])
    assert "Conversion expects insert-only records but DataStream API record contains: UPDATE_AFTER" in text
    assert "Alice" in text


async def test_p38_upsert_as_meant() -> None:
    upsert = ChangelogMode.upsert()
    assert await p38(KEYED, upsert) == ["+I[Alice, 25]", "-U[Alice, 25]", "+U[Alice, 26]"]
    found = await p38(KEYED, upsert, query="SELECT SUM(age) AS s, COUNT(*) AS n FROM people")
    assert found == ["+I[25, 1]", "-D[25, 1]", "+I[26, 1]"]


async def p39(view: str) -> Any:
    env, t_env = envs()
    people = env.from_collection(PEOPLE)
    people.create_temporary_view(t_env, "users")
    people.create_temporary_view(t_env, "users_with_schema", NAME_AGE)
    return texts(await rows(t_env.to_data_stream(t_env.sql_query(f"SELECT * FROM {view} WHERE age > 25"))))


async def test_p39_fluent_views() -> None:
    with pytest.raises(ValidationException, match="Column 'age' not found in any table"):
        await p39("users")
    assert await p39("users_with_schema") == ["+I[Bob, 30]"]


class Struct(msgspec.Struct):
    name: str
    age: int


class Named(NamedTuple):
    name: str
    age: int


class Typed(TypedDict):
    name: str
    age: int


class Plain:
    def __init__(self, a: int) -> None:
        self.a = a


NAMED = [("name", "STRING"), ("age", "BIGINT NOT NULL")]
NULLABLE = [("name", "STRING"), ("age", "BIGINT")]


@pytest.mark.parametrize(
    ("element", "type_info", "columns", "back"),
    [
        (Struct("Alice", 25), None, NAMED, Struct),
        (Person("Alice", 25), None, NAMED, Person),
        (Named("Alice", 25), None, NAMED, Named),
        ({"name": "Alice", "age": 25}, Typed, NAMED, Typed),
        (("Alice", 25), None, [("f0", "STRING"), ("f1", "BIGINT NOT NULL")], tuple[str, int]),
        (
            Row(name="Alice", age=25),
            None,
            NULLABLE,
            Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.LONG()]),
        ),
        (Row("Alice", 25), None, [("f0", "STRING"), ("f1", "BIGINT")], Types.ROW([Types.STRING(), Types.LONG()])),
        ("a", None, [("f0", "STRING")], str),
        (7, None, [("f0", "BIGINT NOT NULL")], int),
        (1.5, None, [("f0", "DOUBLE NOT NULL")], float),
        (True, None, [("f0", "BOOLEAN NOT NULL")], bool),
    ],
)
async def test_p40_element_types(element: Any, type_info: Any, columns: Any, back: Any) -> None:
    env, t_env = envs()
    t = t_env.from_data_stream(env.from_collection([element], type_info))
    schema = t.get_schema()
    found = [(n, x.summary(True)) for n, x in zip(schema.get_field_names(), schema.get_field_data_types())]
    assert found == columns
    (out,) = await rows(t_env.to_data_stream(t, back))
    assert out == element
    assert type(out) is type(element)


@pytest.mark.parametrize("element", [{"a": 1}, Plain(1)])
def test_p40_unknown_types_are_refused(element: Any) -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException, match="type_info="):
        t_env.from_data_stream(env.from_elements(element))


def test_p40_only_rows_carry_kinds() -> None:
    env, t_env = envs()
    with pytest.raises(ValidationException, match="Row"):
        t_env.from_changelog_stream(env.from_elements(("Alice", 25)))
