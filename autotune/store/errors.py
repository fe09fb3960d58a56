"""What can be wrong with a store file or what is put into it.
Must not know how an error is shown to a user."""

from __future__ import annotations

from autotune.errors import AutotuneError


class StoreError(AutotuneError):
    """Any fault of a policy store."""


class NetworkFileSystem(StoreError):
    """The database lies where its write-ahead log cannot work."""

    sentence = "{path} is on a network file system ({file_system}), where processes cannot share a database safely"
    remedy = (
        "put it on a local disk with --db PATH or AUTOTUNE_DATABASE; "
        "records move between machines with `autotune export` and `autotune import`"
    )


class NewerSchema(StoreError):
    """A write to a database that a newer version of this program wrote."""

    sentence = "{path} has schema {found}, this version of autotune writes {known}: it is open for reading only"
    remedy = "install the newer autotune, or name another database with --db PATH or AUTOTUNE_DATABASE"


class OlderSchema(StoreError):
    """A read of a database that has to be migrated first, which only a writer may do."""

    sentence = "{path} has schema {found}, this version of autotune reads {known}"
    remedy = "any command that writes to it, such as `autotune search`, migrates it and keeps a backup beside it"


class ReadOnlyStore(StoreError):
    """A write through a connection that was opened for reading."""

    sentence = "{path} is open for reading only"
    remedy = "open it with open_database(path) to write"


class MissingStore(StoreError):
    """A read of a database that does not exist."""

    sentence = "there is no database at {path}"
    remedy = "`autotune search FILE` creates it"


class LockedStore(StoreError):
    """Another process has held the file's write lock for too long."""

    sentence = "another process has been writing to the database {path} for over {seconds:g} s"
    remedy = "wait for it or end it; nothing that was stored is lost, and the same command continues"


class FullStore(StoreError):
    """There is no room for another record."""

    sentence = "there is no room to write to the database {path}: {detail}"
    remedy = (
        "free some space, or name another database with --db PATH; "
        "nothing that was stored is lost, and the same command continues"
    )


class UnusableStore(StoreError):
    """SQLite cannot read or write the file: damaged, or no database at all."""

    sentence = "the database {path} cannot be used: {detail}"
    remedy = (
        "where it is damaged, move it away: the next search starts a new one, "
        "and `autotune import FILE` brings back what was exported"
    )


class UnreadableRecord(StoreError):
    """A row that this version of the program does not understand."""

    sentence = "a {kind} in the database {path} has another form than this version of autotune knows: {detail}"
    remedy = "use the version of autotune that wrote it, or another database with --db PATH or AUTOTUNE_DATABASE"


class ConflictingRecord(StoreError):
    """Two records share an identity and differ in content."""

    sentence = "the {kind} {id} is stored already with other content"
    remedy = "records never change once written: give a new one a new identity"


class MalformedExport(StoreError):
    """A line of an export file that is not one."""

    sentence = "{source}, line {line}: {detail}"
    remedy = "expected a file that `autotune export` wrote; nothing of it was taken"


class UnknownColdTensor(AutotuneError):
    """A name among the cold tensors that the kernel does not have."""

    sentence = "kernel {kernel!r} has no tensor {name!r} that could be cold"
    remedy = "expected some of {tensors} with commas between, or all: --cold {tensors}"


class UnknownAlignment(AutotuneError):
    """An alignment that nothing is measured at."""

    sentence = "no measurements are made at an alignment of {found} bytes"
    remedy = "expected {known}: --alignment 16"
