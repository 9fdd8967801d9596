"""What may have happened to a source while nobody looked: each is said with its next step.

Without Spark: what is filled afterwards is shown in `test_lifecycle`.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from ops.common.errors import ConfigError, ConsistencyError, SlotAhead, SlotGone, SourceReplaced
from orchestration import lifecycle, running
from orchestration.deployment import open_deployment
from resources.postgres_link import SourceRefused
from resources.settings import SecretStr
from tests.support.pipeline import PIPELINE, TestPipeline
from tests.system.conftest import MakePipeline
from tests.system.test_barriers import Stream, streaming, until
from tests.system.test_lifecycle import apply, table_text


def streamed(pipeline: TestPipeline, rows: int = 3) -> int:
    """Run the stream for some changes; return up to which key they go."""
    with streaming(pipeline) as stream:
        stream.flush()
        stream.write(rows)
        stream.flush()
        return stream.ids()[-1]


def refused(pipeline: TestPipeline, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match), streaming(pipeline) as stream:
        until(lambda: bool(stream.failed))


def said_as_live(pipeline: TestPipeline, *tables: str) -> None:
    with pipeline.store() as store:
        store.execute(
            "UPDATE relations SET state = 'Live', live_since = 1 WHERE name = ANY(%s)",
            [list(tables)],
        )


def copied(pipeline: TestPipeline) -> TestPipeline:
    """Return the pipeline with its control store as it is now, restored into another database."""
    name = str(psycopg.conninfo.conninfo_to_dict(pipeline.control)["dbname"])
    copy = f"{name}_copy"
    with pipeline.source() as link:
        link.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(copy), sql.Identifier(name)
            )
        )
    dsn = psycopg.conninfo.make_conninfo(pipeline.control, dbname=copy)
    settings = replace(pipeline.settings, control_dsn=SecretStr(dsn))
    return replace(pipeline, settings=settings, control=dsn)


def test_a_control_store_restored_to_an_older_state(make_unfilled: MakePipeline) -> None:
    pipeline = make_unfilled(tables=("orders", "extra"))
    streamed(pipeline)
    older = copied(pipeline)
    try:
        streamed(pipeline)
        said_as_live(older, "orders", "extra")
        refused(older, SlotAhead, r"changes in between are gone.*`tidegate repair shop`")
        with open_deployment(older.settings) as deployment:
            built = lifecycle.begin_source_anew(deployment, PIPELINE, "shop", owner="me")
            assert built == ["orders", "extra"]
        assert older.states()["orders"] == ("Stopped", "the stream of shop was begun anew")
        with streaming(older) as stream:
            stream.flush()
            last = max(stream.ids())
            stream.write(2)
            stream.flush()
            ours = older.asked(
                "SELECT sum(files.rows)::int FROM files JOIN relations ON relations.id = relation "
                "WHERE role = 'next' AND name = 'orders'"
            )
            assert ours == [(2,)] and max(stream.ids()) > last
    finally:
        with pipeline.source() as link:
            name = str(psycopg.conninfo.conninfo_to_dict(older.control)["dbname"])
            link.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def drop_slot(pipeline: TestPipeline) -> None:
    with pipeline.source() as link:
        link.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database()"
        )


def move_server(pipeline: TestPipeline) -> None:
    with pipeline.store() as store:
        store.execute("UPDATE sources SET identity = '7000000000000000000/1'")


def move_timeline(pipeline: TestPipeline) -> None:
    """As after a failover: the same system, and a history that may lack what was committed."""
    with pipeline.store() as store:
        store.execute("UPDATE sources SET identity = split_part(identity, '/', 1) || '/7'")


@pytest.mark.parametrize(
    ("happens", "error", "match"),
    [
        (drop_slot, SlotGone, r"is gone from the source.*`tidegate repair shop`"),
        (move_server, SourceReplaced, r"another server than before.*`tidegate repair shop`"),
        (move_timeline, SourceReplaced, r"expected \d+/7"),
    ],
)
def test_what_ends_a_stream_and_begins_it_anew(
    happens: Callable[[TestPipeline], None],
    error: type[ConsistencyError],
    match: str,
    make_unfilled: MakePipeline,
) -> None:
    pipeline = make_unfilled()
    streamed(pipeline)
    said_as_live(pipeline, "orders")
    happens(pipeline)
    refused(pipeline, error, match)
    with open_deployment(pipeline.settings) as deployment:
        assert lifecycle.begin_source_anew(deployment, PIPELINE, "shop", owner="me") == ["orders"]
    streamed(pipeline)


def test_a_role_that_may_replicate_no_more(make_unfilled: MakePipeline) -> None:
    pipeline = make_unfilled()
    name = str(psycopg.conninfo.conninfo_to_dict(pipeline.dsn)["dbname"])
    text = pipeline.file.read_text()
    role = f"reader_{name}"
    with pipeline.source() as link:
        link.execute(
            sql.SQL("CREATE ROLE {} LOGIN REPLICATION PASSWORD 'p'").format(sql.Identifier(role))
        )
        for statement in (
            "GRANT CREATE ON DATABASE {db} TO {role}",
            "ALTER TABLE orders OWNER TO {role}",
            "GRANT USAGE ON SCHEMA public TO {role}",
        ):
            link.execute(
                sql.SQL(statement).format(db=sql.Identifier(name), role=sql.Identifier(role))
            )
    try:
        given = ("username = 'postgres', password = SECRET embedded_password", "")
        pipeline.rewrite((given[0], f"username = '{role}', password = 'p'"))
        assert text != pipeline.file.read_text()
        streamed(pipeline)
        stored = pipeline.asked("SELECT definition FROM sources")[0][0]
        assert "'***'" in str(stored), "the password is in the file only, and taken from there"
        with pipeline.source() as link:
            link.execute(sql.SQL("ALTER ROLE {} NOREPLICATION").format(sql.Identifier(role)))
        refused(pipeline, SourceRefused, r"may not replicate; run: ALTER ROLE")
        pipeline.file.write_text("")
        with (
            open_deployment(pipeline.settings) as deployment,
            pytest.raises(ConfigError, match="its password stood in the file only"),
        ):
            lifecycle.apply(deployment, deployment.pipeline(PIPELINE))
    finally:
        with pipeline.source() as link:
            link.execute(sql.SQL("DROP OWNED BY {role} CASCADE").format(role=sql.Identifier(role)))
            link.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_table_that_was_taken_out_of_the_publication(make_unfilled: MakePipeline) -> None:
    pipeline = make_unfilled(tables=("orders", "extra"))
    streamed(pipeline)
    said_as_live(pipeline, "orders", "extra")
    with pipeline.source() as link:
        (publication,) = link.execute("SELECT pubname FROM pg_publication").fetchone() or ("",)
        named = sql.Identifier(str(publication))
        link.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE extra").format(named))
    streamed(pipeline)
    states = pipeline.states()
    assert states["orders"] == ("Live", None)
    assert states["extra"] == ("Stopped", f"it was taken out of publication {publication}")
    with streaming(pipeline) as stream:
        assert lifecycle.build_anew(stream.deployment, PIPELINE, "extra") == ["extra"]
        deployment = stream.deployment
        running.prepare(deployment, deployment.applied(PIPELINE), tell=stream.said.append)
        with pipeline.source() as link:
            link.execute("INSERT INTO extra (id, quantity) VALUES (1000, 1)")
        stream.flush()
        counted = "SELECT rows FROM files JOIN relations ON relations.id = relation WHERE "
        assert pipeline.asked(f"{counted} name = 'extra' AND role = 'next'") == [(1,)]
        assert pipeline.states()["extra"][0] == "Stopped", "until the new one is live"


def test_a_table_added_while_a_transaction_that_wrote_to_it_is_open(
    make_unfilled: MakePipeline,
) -> None:
    """What it wrote before is not published; so nobody may read before it has ended."""
    pipeline = make_unfilled(tables=("orders", "extra"))
    whole = pipeline.file.read_text()
    pipeline.rewrite((table_text("extra"), ""))
    with streaming(pipeline) as stream, psycopg.connect(pipeline.dsn) as writer:
        stream.flush()
        writer.execute("INSERT INTO extra (id, quantity) VALUES (1000, 1)")
        pipeline.file.write_text(whole)
        apply(stream)
        prepared = in_thread(stream)
        until(lambda: any("transactions that began earlier" in text for text in stream.said))
        assert prepared.is_alive()
        writer.execute("INSERT INTO extra (id, quantity) VALUES (1001, 1)")
        writer.commit()
        prepared.join(30)
        assert not prepared.is_alive()
        stream.flush()
        # The first is not in the stream; whoever reads a page from here on sees it.
        rows = writer.execute("SELECT id FROM extra WHERE id >= 1000 ORDER BY id").fetchall()
        assert rows == [(1000,), (1001,)]
        assert 1000 not in stream.ids()


def in_thread(stream: Stream) -> threading.Thread:
    deployment = stream.deployment

    def prepare() -> None:
        try:
            running.prepare(deployment, deployment.applied(PIPELINE), tell=stream.said.append)
        except BaseException as error:
            stream.failed.append(error)

    thread = threading.Thread(target=prepare, daemon=True)
    thread.start()
    return thread
