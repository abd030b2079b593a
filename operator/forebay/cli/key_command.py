"""`forebay key create`: a random API key, printed once, and its hash for Git.

Only the hash goes into a TenantQuota. A SHA-256 without salt is safe for keys of this length, which nobody can guess or
list; it would not be for passwords.
"""

import hashlib
import json
import secrets
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

KEY_BYTES: Final = 24
"""192 random bits: more than the 128 that a hash without salt needs."""
PREFIX: Final = "fbk_"
"""So that scanners for leaked secrets find keys."""

key = typer.Typer(help="API keys of tenants.", no_args_is_help=True)


class KeyClass(StrEnum):
    INTERACTIVE = "Interactive"
    BATCH = "Batch"


class KeyOutput(StrEnum):
    TEXT = "text"
    JSON = "json"


@key.callback()
def keys() -> None:
    """API keys of tenants."""


@key.command("create")
def create(
    name: Annotated[str, typer.Option("--name", help="Name of the key within the TenantQuota.")] = "default",
    key_class: Annotated[
        KeyClass | None,
        typer.Option("--class", help="Class of its requests. Default: that of the share or of the quota."),
    ] = None,
    expires_at: Annotated[
        str | None,
        typer.Option(
            "--expires-at", metavar="TIME", help="When it ends, such as 2027-01-31T18:00:00Z. Default: never."
        ),
    ] = None,
    output: Annotated[KeyOutput, typer.Option("--output", "-o", help="text or json.")] = KeyOutput.TEXT,
) -> None:
    """Create a random key: it is printed once and stored nowhere. Its SHA-256 goes into a TenantQuota, in Git."""
    secret = new_key()
    entry = entry_of(secret, name, key_class, expires_at)
    if problem := _problem(entry):
        raise typer.BadParameter(problem)
    if output is KeyOutput.JSON:
        typer.echo(json.dumps({"key": secret, "entry": entry}, indent=2))
        return
    # In quotes, since YAML takes 2027-01-31T18:00:00Z for a time and the name `on` for true.
    fields = [f"{field}: {json.dumps(value)}" for field, value in entry.items()]
    typer.echo("# The key. It is shown once and stored nowhere: hand it to the caller over a safe channel.")
    typer.echo(secret)
    typer.echo("\n# For spec.apiKeys of the TenantQuota, in Git:")
    typer.echo("\n".join(f"{'- ' if number == 0 else '  '}{line}" for number, line in enumerate(fields)))


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def entry_of(secret: str, name: str, key_class: KeyClass | None, expires_at: str | None) -> dict[str, str]:
    """The entry of `spec.apiKeys`, without the key itself."""
    entry = {"name": name, "sha256": hashlib.sha256(secret.encode()).hexdigest()}
    if key_class is not None:
        entry["class"] = key_class.value
    if expires_at is not None:
        entry["expiresAt"] = expires_at
    return entry


def _problem(entry: dict[str, Any]) -> str:
    """What the API server would refuse, by the same rules; empty for a valid entry."""
    from pydantic import ValidationError

    from forebay.api.schema.validation_errors import validation_messages
    from forebay.api.tenant_quota import ApiKey

    try:
        ApiKey.model_validate(entry)
    except ValidationError as error:
        return " ".join(validation_messages(error))
    return ""
