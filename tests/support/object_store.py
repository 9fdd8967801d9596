"""A local S3 in a process of its own: delta-rs holds the interpreter while it waits for answers."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import boto3

from resources.embedded.loopback import answers, free_port
from resources.settings import SecretStr, Settings

KEY, SECRET = "tidegate-key", "hunter2-of-the-lake"
BUCKET = "lake"


@dataclass(frozen=True)
class LocalS3:
    endpoint: str

    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def keys(self, prefix: str = "") -> list[str]:
        """Return the names of all objects, also of those that stand for a folder."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        found = [o["Key"] for page in pages for o in page.get("Contents", [])]
        return [key for key in found if key.startswith(prefix)]

    def settings(self, settings: Settings, prefix: str) -> Settings:
        return replace(
            settings,
            lake=f"s3://{BUCKET}/{prefix}",
            s3_endpoint=self.endpoint,
            s3_region="us-east-1",
            s3_access_key=SecretStr(KEY),
            s3_secret_key=SecretStr(SECRET),
            s3_path_style=True,
            s3_allow_http=True,
        )


@contextmanager
def local_s3() -> Iterator[LocalS3]:
    """Give a server with one empty bucket."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not answers(port):
            assert process.poll() is None and time.monotonic() < deadline, "moto does not start"
            time.sleep(0.1)
        server = LocalS3(f"http://127.0.0.1:{port}")
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.terminate()
        process.wait()
