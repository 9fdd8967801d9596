"""What we start or fetch ourselves so that a fresh machine needs only Python.

    java.py            a Java that Spark runs on, behind one wrapper
    jars.py            Spark's extra jars, fetched once, checked by hash
    postgres.py        one server per home: first user starts it, last user stops it
    connect_server.py  one warm Spark for many processes, ended with its parent

Touch: when a bundled server, a pinned jar or its hash changes.
Never: leave a process behind, listen beyond loopback, write outside the home or the cache
(one exception, said aloud: see postgres.py on running as root).
Tests: tests/servers/test_embedded_postgres.py, tests/unit/test_java.py,
tests/spark/test_connect.py.
"""
