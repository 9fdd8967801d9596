"""How to talk: settings, sessions, drivers, files and the servers we start ourselves.

Touch: a module per thing talked to; `settings.py` for anything that comes from the environment.
Never: import ops or orchestration, read `os.environ` outside `settings.py`, decide what data means.
Tests: tests/unit/test_settings.py and one file per module beside it; tests/spark/test_connect.py.
"""
