"""Complete the help of the commands: add examples, and remove uninformative type names."""

from __future__ import annotations

from typing import Any

EXAMPLES = {
    "up": ("up", "up --port 8080"),
    "init": (
        "init",
        "init --site-name 'Lab Papers' --base-url https://papers.example.org",
        "init --test-to you@example.org --start",
    ),
    "web": ("web", "web --host 0.0.0.0 --port 8080"),
    "worker": ("worker", "--data-dir /srv/digest worker"),
    "scheduler": ("scheduler", "--data-dir /srv/digest scheduler"),
    "inbound": ("inbound", "--data-dir /srv/digest inbound"),
    "keys list": ("keys list", "keys list --json"),
    "keys retire": ("keys retire 7f3a9c", "keys retire 7f3a9c --json"),
    "db upgrade": ("db upgrade", "db upgrade --json"),
    "db copy": ("db copy postgresql:///digest", "db copy postgresql://digest@db.example.org/digest --json"),
    "backup": ("backup digest.backup", "backup /var/backups/digest.backup --with-keys --overwrite"),
    "restore": ("restore digest.backup", "restore /var/backups/digest.backup --json"),
    "intake": (
        "intake page.txt --dry-run --show 5",
        "intake export.csv --date 2026-11-20 --order ranked --as-history",
        "intake https://papers.example.org/today",
    ),
    "capture": (
        "capture < page.html",
        "capture --url https://papers.example.org/today --dry-run --show 5",
    ),
    "papers": (
        "papers",
        "papers 'title:diffusion AND video' --order relevance",
        "papers --dump 12 --json",
    ),
    "trending": ("trending", "trending --limit 50", "trending --now 2026-11-20T08:00Z --json"),
    "hide": ("hide 2411.00001", "hide 'Tidal Sorting' --json", "hide --dump 12"),
    "unhide": ("unhide 2411.00001", "unhide 12 --json", "unhide --dump 12"),
    "dumps list": ("dumps list", "dumps list --limit 100 --json"),
    "dumps show": ("dumps show 12", "dumps show 12 --json"),
    "dumps retry": (
        "dumps retry 12 --dry-run",
        "dumps retry 12 --incomplete-ok",
        "dumps retry 12 --as-history",
    ),
    "sources list": ("sources list", "sources list --json"),
    "sources add": (
        "sources add hf-daily",
        "sources add arxiv:cs.CL+cs.LG --backfill 14",
        "sources add https://papers.example.org/today.json --every 6",
    ),
    "sources remove": ("sources remove hf-daily", "sources remove arxiv:cs.CL+cs.LG --json"),
    "sources poll": ("sources poll", "sources poll --dry-run", "sources poll hf-daily biorxiv"),
    "topics check": (
        "topics check 'title:diffusion AND (video OR image)'",
        "topics check use:lab/nlp --json",
    ),
    "topics test": (
        "topics test 'diffus* NOT survey'",
        "topics test 'diffusion OR video' --explain --limit 5",
        "topics test use:lab/nlp --limit 50 --json",
    ),
    "topics suggest": (
        "topics suggest 12 40 10.1234/tides",
        "topics suggest 2411.00001 --json",
        "topics suggest --from library.bib",
    ),
    "topics stats": ("topics stats", "topics stats --health silent", "topics stats --days 30 --json"),
    "topics pack lint": ("topics pack lint lab.pack", "topics pack lint lab.pack --json"),
    "topics pack list": ("topics pack list", "topics pack list --json"),
    "topics pack show": ("topics pack show lab", "topics pack show lab --version 2"),
    "topics pack diff": ("topics pack diff lab.pack", "topics pack diff lab.pack --json"),
    "topics pack publish": ("topics pack publish lab.pack", "topics pack publish lab.pack --yes"),
    "topics pack undo": ("topics pack undo lab --dry-run", "topics pack undo lab --yes"),
    "subscribers add": (
        "subscribers add ada@example.org --topic 'Vision=image* OR video'",
        "subscribers add ada@example.org --at 07:30 --timezone Europe/Oslo",
        "subscribers add ada@example.org --confirmed --consent 'asked in class'",
    ),
    "subscribers list": (
        "subscribers list",
        "subscribers list --state pending --limit 100",
        "subscribers list --pack lab/nlp --columns email,confirmed_at,consent",
    ),
    "subscribers search": ("subscribers search ada", "subscribers search diffusion --json"),
    "subscribers stats": ("subscribers stats", "subscribers stats --json"),
    "subscribers show": ("subscribers show ada@example.org", "subscribers show ada@example.org --json"),
    "subscribers edit": (
        "subscribers edit ada@example.org --cadence weekly-fri --at 07:30",
        "subscribers edit ada@example.org --topic 'Vision=image*'",
        "subscribers edit ada@example.org --remove-topic Vision",
    ),
    "subscribers undo": ("subscribers undo ada@example.org", "subscribers undo ada@example.org --json"),
    "subscribers pause": (
        "subscribers pause ada@example.org",
        "subscribers pause ada@example.org --until 2027-01-06",
    ),
    "subscribers resume": ("subscribers resume ada@example.org", "subscribers resume ada@example.org --json"),
    "subscribers remove": ("subscribers remove ada@example.org", "subscribers remove ada@example.org --yes"),
    "subscribers erase": (
        "subscribers erase ada@example.org --dry-run",
        "subscribers erase ada@example.org --suppress",
        "subscribers erase ada@example.org --yes",
    ),
    "subscribers import": (
        "subscribers import people.csv --dry-run",
        "subscribers import people.csv --consent 'agreed on the sign-up sheet'",
        "subscribers import --template",
    ),
    "subscribers sync": (
        "subscribers sync members.csv --dry-run",
        "subscribers sync members.csv --invited-by 'Anna at Example Lab'",
        "subscribers sync members.csv --yes",
    ),
    "subscribers export": (
        "subscribers export",
        "subscribers export people.csv",
        "subscribers export people.jsonl",
    ),
    "suppressions list": ("suppressions list", "suppressions list --json"),
    "suppressions add": (
        "suppressions add ada@example.org",
        "suppressions add ada@example.org --note 'asked by phone'",
    ),
    "suppressions remove": (
        "suppressions remove ada@example.org",
        "suppressions remove ada@example.org --yes",
    ),
    "preview": (
        "preview ada@example.org --out preview",
        "preview ada@example.org --out preview --now 2026-11-21T08:00+01:00",
    ),
    "publish": (
        "publish",
        "publish --dry-run --out tomorrow --now 2026-11-21T08:00Z",
    ),
    "diff": ("diff tomorrow", "diff before after --json"),
    "deliver": ("deliver", "deliver --limit 100"),
    "run": ("run", "run --json"),
    "deliveries": ("deliveries --state failed", "deliveries --email ada@example.org --json"),
    "deliveries stop": (
        "deliveries stop --reason 'wrong template'",
        "deliveries stop --all --reason 'moving the server'",
    ),
    "deliveries resume": ("deliveries resume --dry-run", "deliveries resume"),
    "deliveries retry": ("deliveries retry 1042 --dry-run", "deliveries retry --all"),
    "deliveries give-up": ("deliveries give-up 1042", "deliveries give-up --all --dry-run"),
    "why": (
        "why ada@example.org 2411.00001",
        "why ada@example.org 'Tide Tables for Gradient Descent'",
        "why ada@example.org --edition 2026-11-20",
    ),
    "history": ("history ada@example.org", "history ada@example.org --json"),
    "trace": ("trace 1042", "trace '<d-1042@papers.example.org>' --json"),
    "bounces list": ("bounces list", "bounces list --domain example.org --kind hard"),
    "bounces forgive": (
        "bounces forgive --domain example.org",
        "bounces forgive --domain example.org --since 2026-11-19",
    ),
    "bounces accept": (
        "bounces accept --domain example.org --dry-run",
        "bounces accept --domain example.org --since 2026-11-19",
    ),
    "inbox list": ("inbox list", "inbox list --limit 100 --json"),
    "inbox show": ("inbox list", "inbox show 7"),
    "inbox retry": ("inbox retry", "inbox retry 7"),
    "inbox delete": ("inbox delete 7", "inbox delete --from @spam.example --yes", "inbox delete --all"),
    "dkim keygen": ("dkim keygen", "dkim keygen --selector mail2026 --ed25519"),
    "dkim list": ("dkim list", "dkim list --json"),
    "status": ("status", "status --watch", "status --json"),
    "report": ("report", "report --since 4w", "report --since 30d --json"),
    "doctor": (
        "doctor",
        "doctor --send-test you@example.org",
        "doctor --received letter.eml",
    ),
}


def complete_help(command: Any, name: str = "") -> Any:
    """Add examples to a command and its subcommands, and remove `<str>` and `<bool>` from their help."""
    if examples := EXAMPLES.get(name):
        command.epilog = "\n".join(("Examples:", *(f"$ digest {example}" for example in examples)))
    for param in command.params:
        show_plainly(param)
    get_help_option = command.get_help_option
    command.get_help_option = lambda context: show_plainly(get_help_option(context))
    for word, below in getattr(command, "commands", {}).items():
        complete_help(below, f"{name} {word}".strip())
    return command


def show_plainly(param: Any) -> Any:
    """Make the help show a flag without a type, and an argument by its name alone."""
    if param.param_type_name == "argument":
        usage = param.display_name_raw + ("" if param.nargs == 1 else "...")
        param.get_usage_pieces = lambda _context: [usage if param.required else f"[{usage}]"]
    if param.param_type_name == "argument" or param.is_flag:
        param.display_type_rich = lambda **_: None
    return param
