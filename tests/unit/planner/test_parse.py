"""What a pipeline's text becomes, and what is refused with which words."""

import logging
import traceback
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ops.common.errors import ConfigError, Unsupported
from ops.common.schema import Column, DataType, Kind
from ops.planner.parse import load_pipelines, parse_pipeline
from ops.planner.plan import Secret

SOURCE = """CREATE SOURCE s WITH (connector = 'postgres-cdc', hostname = 'h', username = 'u',
  database.name = 'd');
"""
OPTIONS = "connector='postgres-cdc', hostname='h', username='u', database.name='d'"
SHOP = Path(__file__).parents[3] / "sql" / "pipelines" / "shop.sql"


def refused(sql: str, *, name: str = "p", path: str = "") -> str:
    with pytest.raises(Unsupported) as caught:
        parse_pipeline(name, sql, path)
    return str(caught.value)


def test_shop_is_what_the_demo_needs() -> None:
    plan = parse_pipeline("shop", SHOP.read_text(), "shop.sql")
    source, table, view = plan.sources[0], plan.table("orders"), plan.view("revenue")
    assert source.options == {
        "connector": "postgres-cdc",
        "hostname": Secret("embedded_host"),
        "port": Secret("embedded_port"),
        "username": "postgres",
        "password": Secret("embedded_password"),
        "database.name": "shop",
        "slot.name": "tidegate_shop",
    }
    assert (source.slot, source.publication) == ("tidegate_shop", "tidegate_shop")
    assert table is not None and view is not None
    assert (table.source, table.external_schema, table.external_table) == (
        "shop",
        "public",
        "orders",
    )
    assert (table.columns, table.key) == (None, None)
    assert (table.parallelism, table.rows_per_split, table.page_rows) == (2, 100_000, 50_000)
    assert view.upstream == "orders"


def test_names_fold_as_in_postgres() -> None:
    plan = parse_pipeline(
        "p",
        SOURCE.replace("SOURCE s", 'SOURCE IF NOT EXISTS "Src"').replace(
            "database.name", "slot.name = 'x', Database.Name"
        )
        + """CREATE TABLE Orders (ID int, "Éa" text, É text, PRIMARY KEY (Id))
             FROM "Src" TABLE 'Sales.Orders';""",
    )
    table = plan.tables[0]
    assert (table.name, table.source) == ("orders", "Src")
    assert (table.external_schema, table.external_table) == ("Sales", "Orders")
    assert table.columns is not None
    assert [c.name for c in table.columns] == ["id", "Éa", "É"]


def test_explicit_columns() -> None:
    sql = (
        SOURCE
        + """CREATE TABLE t (a int PRIMARY KEY, b numeric(12,2) NOT NULL, c numeric,
      d numeric(5), e varchar(20), f timestamp with time zone, g timestamp(3), h bool, i date,
      j smallint, k bigint) FROM s TABLE 'x.y' WITH (vnode_count=256, snapshot.batch_size='7')"""
    )
    table = parse_pipeline("p", sql).tables[0]
    assert table.columns is not None
    assert [str(c.type) for c in table.columns] == [
        "int4",
        "numeric(12,2)",
        "numeric(38,18)",
        "numeric(5,0)",
        "text",
        "timestamptz",
        "timestamp",
        "bool",
        "date",
        "int2",
        "int8",
    ]
    assert table.columns[0] == Column("a", DataType(Kind.INT4), nullable=False)
    assert [c.nullable for c in table.columns[1:3]] == [False, True]
    assert (table.key, table.vnode_count, table.page_rows) == (("a",), 256, 7)


@pytest.mark.parametrize("key", ["PRIMARY KEY (b, a)", "CONSTRAINT k PRIMARY KEY (b, a)"])
def test_key_as_a_constraint(key: str) -> None:
    table = parse_pipeline("p", SOURCE + f"CREATE TABLE t (a int, b int, {key}) FROM s TABLE 'y'")
    assert table.tables[0].key == ("b", "a")
    assert table.tables[0].external_schema == "public"


def test_options_are_kept_in_one_form() -> None:
    sql = f"""CREATE SOURCE s WITH ({OPTIONS}, port = 05433, ssl.mode = 'required',
      schema.name = 'sales', publication.name = SECRET Pub, slot.name = SECRET "Slot")"""
    source = parse_pipeline("p", sql).sources[0]
    assert source.options["port"] == "5433"
    assert source.options["ssl.mode"] == "require"
    with pytest.raises(ConfigError, match="SECRET Slot has not been looked up yet"):
        _ = source.slot
    known = source.resolved({"pub": "the_pub", "Slot": "the_slot"}.__getitem__)
    assert (known.slot, known.publication) == ("the_slot", "the_pub")


def test_schema_name_of_the_source_is_the_default() -> None:
    source = f"CREATE SOURCE s WITH ({OPTIONS}, schema.name='sales');"
    sql = f"{source} CREATE TABLE t (*) FROM s TABLE 'o'"
    assert parse_pipeline("p", sql).tables[0].external_schema == "sales"


TABLE_REFUSALS = {
    "(a int) FROM s TABLE 'y'": "column 14: table t lists its columns but no PRIMARY KEY; "
    "name the source's key",
    "(a int PRIMARY KEY, PRIMARY KEY (a)) FROM s TABLE 'y'": "column 36: "
    "table t has two PRIMARY KEYs",
    "(a int PRIMARY KEY, A text) FROM s TABLE 'y'": "column 36: two columns are called a",
    "(a int, PRIMARY KEY (z)) FROM s TABLE 'y'": "column 37: PRIMARY KEY names z, "
    "which is not a column or was named before",
    "(a numeric(50,2) PRIMARY KEY) FROM s TABLE 'y'": "column 19: type numeric(50,2) of column a "
    "does not fit into 38 digits; keep the numerics as text: numeric.as = 'text'",
    "(*) FROM s TABLE 'y' WITH (numeric.as = 'float')": "column 56: option numeric.as must be "
    "decimal or text, not 'float'",
    "(_tg_a int PRIMARY KEY) FROM s TABLE 'y'": "column 17: column '_tg_a' begins with _tg_, "
    "which is kept for hidden columns",
    "(a int PRIMARY KEY DEFAULT 1) FROM s TABLE 'y'": "column 35: DEFAULT on a column is not "
    "supported yet",
    "(a int, WATERMARK FOR a AS a) FROM s TABLE 'y'": "column 24: WATERMARK FOR is not "
    "supported yet",
    "(*) APPEND ONLY FROM s TABLE 'y'": "column 20: APPEND ONLY is not supported yet",
    "(*) FROM s TABLE 'y' INCLUDE x": "column 37: INCLUDE is not supported yet",
    "AS SELECT 1": "column 16: AS SELECT is not supported yet",
    "(*) FROM nope TABLE 'y'": "column 25: no source is called 'nope'; sources before it: s",
    "(*) FROM s": "column 26: syntax error: the statement ends too early; "
    "TABLE 'schema.table' is expected",
    "(*) FROM s TABLE y": "column 33: syntax error at 'y'; "
    "the source's table is expected as a quoted text",
    "(*) FROM s TABLE 'a.b.c'": "column 33: table 'a.b.c' of source s is not of the form "
    "'schema.table'",
    "(*)": "column 14: table t has no FROM source TABLE 'schema.table'; "
    "tables of a pipeline come from a source",
    "FROM s TABLE 'y'": "column 14: table t has no column list; "
    "write (*) after its name for all columns",
    "(*) FROM s TABLE 'y' garbage": "column 37: syntax error at 'garbage'",
    "(*) FROM s TABLE 'y' WITH (backfill.paralelism='4')": "column 43: unknown option "
    "backfill.paralelism of table t; the nearest known is backfill.parallelism",
    "(*) FROM s TABLE 'y' WITH (backfill.parallelism='257')": "column 64: option "
    "backfill.parallelism must be a whole number from 0 to 256, not '257'",
    "(*) FROM s TABLE 'y' WITH (vnode_count=0)": "column 55: option vnode_count must be a whole "
    "number from 1 to 32768, not '0'",
    "(*) FROM s TABLE 'y' WITH (vnode_count=SECRET x)": "column 43: option vnode_count of table t "
    "cannot be a SECRET",
    "(*) FROM s TABLE 'y' WITH (vnode_count=1, vnode_count=1)": "column 58: option vnode_count "
    "of table t is given twice",
}


@pytest.mark.parametrize("rest", TABLE_REFUSALS)
def test_tables_refused(rest: str) -> None:
    assert refused(f"{SOURCE}CREATE TABLE t {rest}") == f"line 3, {TABLE_REFUSALS[rest]}"


STATEMENT_REFUSALS = {
    "CREATE SINK x FROM t": "line 1, column 1: CREATE SINK is not supported; a pipeline holds "
    "CREATE SOURCE, CREATE TABLE … FROM and CREATE MATERIALIZED VIEW",
    "\n\n  DROP TABLE t": "line 3, column 3: DROP is not supported; a pipeline holds "
    "CREATE SOURCE, CREATE TABLE … FROM and CREATE MATERIALIZED VIEW",
    "CREATE SOURCE s": "line 1, column 15: source s has no option connector; "
    "add connector = '…' to its WITH",
    "CREATE SOURCE s WITH (connector='mysql-cdc')": "line 1, column 33: option connector must be "
    "'postgres-cdc', the only connector so far, not 'mysql-cdc'",
    "CREATE SOURCE s WITH (connector=SECRET x)": "line 1, column 23: option connector of source s "
    "cannot be a SECRET",
    "CREATE SOURCE x.s WITH (a='b')": "line 1, column 17: a schema before s has no meaning here; "
    "write the name alone",
    'CREATE SOURCE "my src" WITH (a=1)': "line 1, column 15: name 'my src' may hold only letters, "
    "digits and _, and begins with no digit",
    f'CREATE SOURCE "S" WITH ({OPTIONS})': "line 1, column 15: source S needs a slot.name: "
    "'tidegate_p_S' cannot name a slot; add slot.name = '…' to its WITH",
    f"{SOURCE}CREATE SOURCE s WITH ({OPTIONS})": "line 3, column 15: two relations are called s; "
    "rename one",
    f"{SOURCE}CREATE TABLE \"S\" (*) FROM s TABLE 'y'": "line 3, column 14: relations s and S "
    "differ only in case; rename one",
    "CREATE TABLE t (*) FROM s TABLE 'y;": "line 1, column 33: syntax error: a quote or comment "
    "is never closed",
    "CREATE SOURCE s 'pw'": "line 1, column 17: syntax error",
    "CREATE SOURCE s $$pw$$": "line 1, column 17: syntax error",
    "-- it's fine\n/* open": "line 2, column 1: syntax error: a quote or comment is never closed",
    "CREATE MATERIALIZED VIEW v WITH (x=1) AS SELECT 1": "line 1, column 28: options of a view "
    "are not supported yet",
}


@pytest.mark.parametrize("sql", STATEMENT_REFUSALS)
def test_statements_refused(sql: str) -> None:
    assert refused(sql) == STATEMENT_REFUSALS[sql]


def test_the_file_is_named() -> None:
    assert refused("DROP TABLE t", path="x.sql").startswith("x.sql: line 1, column 1: DROP is not")
    assert refused("", name="a-b") == (
        "pipeline name 'a-b' may hold only letters, digits and _, and begins with no digit; "
        "rename the file"
    )


def test_definition_has_no_comments_and_no_password() -> None:
    sql = f"""CREATE SOURCE s -- password = 'old1'
      WITH ({OPTIONS}, /* password='old2' */ password = 'pw;1'); -- after"""
    source = parse_pipeline("p", sql).sources[0]
    assert source.definition == f"CREATE SOURCE s\nWITH ({OPTIONS}, password = '***')"
    assert source.options["password"] == "pw;1"
    assert "pw;1" not in repr(source)
    again = parse_pipeline("p", source.definition).sources[0]
    assert again.definition == source.definition


LEAKY = [
    "CREATE SOURCE s WITH ({o}, password={pw}, x='y')",
    "CREATE SOURCE s WITH ({o}, pasword={pw})",
    "CREATE SOURCE s WITH ({o}, password={pw}",
    "CREATE SOURCE s WITH ({o}, password={pw} 'b')",
    "CREATE SOURCE s WITH ({o}, password={pw}) FORMAT x",
    "CREATE SOURCE s WITH ({o}, password={pw}, port='no')",
    "CREATE SOURCE s WITH ({o}, {pw}='x')",
    "CREATE SINK s WITH (password={pw})",
    "CREATE USER u PASSWORD {pw}",
    "CREATE MATERIALIZED VIEW v WITH (password={pw} x) AS SELECT 1",
    "{pw}",
]


@given(
    sql=st.sampled_from(LEAKY),
    password=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    quote=st.sampled_from(["'{}'", "{}", "$${}$$", "E'{}'", "'{}"]),
)
def test_a_password_is_in_no_error(sql: str, password: str, quote: str) -> None:
    marked = "Hx7q" + password.replace("'", "''") + "Hx7q"
    try:
        parse_pipeline("p", sql.format(o=OPTIONS, pw=quote.format(marked)))
    except Unsupported as error:
        text = "".join(traceback.format_exception(error)[-1:]) + repr(error) + str(error)
        assume(quote != "{}" or "='x'" not in sql)  # then it stands where an option's name does
        assert "Hx7q" not in text
        assert error.__context__ is None


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        refused("CREATE MATERIALIZED VIEW v AS SELECT a count(*) FROM t")
        refused("CREATE SINK s WITH (password = 'pw')")
    assert not caplog.records


def test_pipelines_do_not_share_a_slot() -> None:
    one = f"CREATE SOURCE s WITH ({OPTIONS}, slot.name='x')"
    other = f"CREATE SOURCE r WITH ({OPTIONS}, slot.name='x', port=5432)"
    assert list(load_pipelines({"a": ("a.sql", one), "b": ("b.sql", SOURCE)})) == ["a", "b"]
    with pytest.raises(Unsupported, match=r"sources a\.s and b\.r read the same slot"):
        load_pipelines({"a": ("a.sql", one), "b": ("b.sql", other)})
