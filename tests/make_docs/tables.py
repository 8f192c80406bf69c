"""The parts of documents that are written from the code: tables of words, scenarios, invariants."""

from collections.abc import Callable
from dataclasses import fields

from regroup.cli.chaos.words import invariant_tables
from regroup.control.document import openapi_document, statuses_of
from regroup.control.endpoints.all import ENDPOINTS
from regroup.control.errors import Status
from regroup.lab.plan.scenario_files import scenario, scenario_names, scenario_text
from regroup.lab.plan.scenario_words import ReferenceTable, field_meanings, scenario_reference
from regroup.pipeline.campaign.options import OPTION_LIMITS, ScenarioOptions
from regroup.pipeline.campaign.scenarios import SCENARIOS


def scenario_words() -> str:
    """Every step, expectation, trigger and option of a scenario."""
    return "\n".join(_markdown(table, "Words") for table in scenario_reference())


def invariants() -> str:
    """Every invariant that a run checks, with its explanation."""
    parts = []
    for table in invariant_tables():
        title = table.title.removeprefix("Invariants: ")
        rows = [f"- {words}{f' {meaning}' if meaning else ''}\n" for words, meaning in table.rows]
        parts.append(f"**{title[0].upper()}{title[1:]}**\n\n{''.join(rows)}")
    return "\n".join(parts)


def scenarios() -> str:
    """The scenarios that come with the lab."""
    rows = [f"| `{name}` | {scenario(name).title} |\n" for name in scenario_names()]
    return "| Name | |\n|---|---|\n" + "".join(rows)


def worked_scenario() -> str:
    """The scenario that the guide explains."""
    return f"```yaml\n{scenario_text('zombie-commits-after-removal').rstrip()}\n```\n"


def campaign_options() -> str:
    """The options of a campaign's plan, with their defaults and limits."""
    defaults = {each.name: each.default for each in fields(ScenarioOptions)}
    rows = []
    for name, meaning in field_meanings(ScenarioOptions).items():
        least, most = OPTION_LIMITS.get(name, (None, None))
        allowed = "" if least is None else f"{least:,} to {most:,}"
        rows.append(f"| `{name}` | {meaning} | {str(defaults[name]).lower()} | {allowed} |\n")
    return "| Option | Meaning | Default | Allowed |\n|---|---|---|---|\n" + "".join(rows)


def campaign_scenarios() -> str:
    """The scenarios of campaigns."""
    docs = {name: " ".join((scenario.__doc__ or "").split()) for name, scenario in SCENARIOS.items()}
    rows = [f"| `{name}` | {text.partition(' Raises ')[0]} |\n" for name, text in docs.items()]
    return "| Scenario | What happens |\n|---|---|\n" + "".join(rows)


def control_endpoints() -> str:
    """The endpoints of the control port, with their fields and their own refusals."""
    document = openapi_document()
    schemas = document["components"]["schemas"]
    rows = []
    for endpoint in ENDPOINTS:
        schema = schemas[endpoint.input_type.__name__]
        required = schema.get("required", [])
        fields = ", ".join(f"`{name}`" if name in required else f"[`{name}`]" for name in schema["properties"])
        refusals = ", ".join(str(status.value) for status in statuses_of(endpoint) if status in _OWN_STATUSES)
        description = endpoint.description.replace("|", "\\|")
        rows.append(f"| {endpoint.method} `{endpoint.path}` | {fields} | {description} | {refusals} |\n")
    return "| Endpoint | Input | What it does | Refused with |\n|---|---|---|---|\n" + "".join(rows)


def control_statuses() -> str:
    """The statuses of refused requests."""
    rows = [f"| {status.value} | {status.meaning} |\n" for status in Status]
    return "| Status | Meaning |\n|---|---|\n" + "".join(rows)


_OWN_STATUSES = (Status.NOT_FOUND, Status.REFUSED, Status.TOO_MANY_WAITS)
"""All other statuses are those of every endpoint."""


def _markdown(table: ReferenceTable, heading: str) -> str:
    rows = [f"| {_code(words)} | {meaning.replace('|', chr(92) + '|')} |\n" for words, meaning in table.rows]
    return f"### {table.title}\n\n| {heading} | Meaning |\n|---|---|\n{''.join(rows)}"


def _code(words: str) -> str:
    return "<br>".join(f"`{each}`" for each in words.split(" / "))


MAKERS: dict[str, Callable[[], str]] = {
    "scenario-words": scenario_words,
    "invariants": invariants,
    "scenarios": scenarios,
    "worked-scenario": worked_scenario,
    "campaign-options": campaign_options,
    "campaign-scenarios": campaign_scenarios,
    "control-endpoints": control_endpoints,
    "control-statuses": control_statuses,
}
"""The functions by the names that documents use."""
