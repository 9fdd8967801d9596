"""Under which account a server runs: ours, or an unprivileged one when we are root."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from resources.errors import SetupFailed


class Credentials(TypedDict, total=False):
    """The arguments of `subprocess.run` that change the account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns a server's files and runs its processes."""

    name: str
    uid: int
    gid: int
    is_other: bool
    """True when it is not the account of this process."""

    def credentials(self) -> Credentials:
        if not self.is_other:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.is_other:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Say whether this account may pass through every folder down to `path`."""
        if not self.is_other:
            return True
        return all(self._may_enter(folder) for folder in [path, *path.resolve().parents])

    def _may_enter(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def server_account() -> Account:
    """Return our own account, or `nobody` when we are root, as which Postgres refuses to run."""
    if os.geteuid() != 0:
        return Account(name="this user", uid=os.geteuid(), gid=os.getegid(), is_other=False)
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise SetupFailed(
            "Postgres does not run as root and there is no account `nobody`; "
            "start tidegate as an ordinary user, or set TIDEGATE_CONTROL_DSN"
        ) from None
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, is_other=True)
