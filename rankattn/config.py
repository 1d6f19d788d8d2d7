"""Reading, normalising and checking the configuration.

The configuration is ``config/config.yaml`` (the laptop preset) under the overlay
of another preset. Every mistake becomes one :class:`ConfigError` that names
the key, its value and the cure, before any work starts.
"""

import copy
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parent.parent
BASE = ROOT / "config" / "config.yaml"
PRESETS = ROOT / "config" / "presets"
SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


class ConfigError(ValueError):
    """A configuration that cannot be run; the message is one line."""


def preset_names() -> list[str]:
    """Names accepted by ``PRESET=``."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def merge(base: Mapping, overlay: Mapping) -> dict:
    """Overlay wins; mappings are merged key by key, everything else (lists too) is replaced."""
    merged = dict(copy.deepcopy(base))
    for key, value in overlay.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else copy.deepcopy(value)
    return merged


def read_yaml(path: Path) -> dict:
    """Contents of one YAML file. Raises ConfigError when it is missing, broken or not a mapping."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: cannot be read as YAML ({reason})") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must be a mapping of keys to values")
    return content


def load(preset: str, overrides: Mapping | None = None) -> dict:
    """The checked configuration of a preset, with ``overrides`` merged on top."""
    if preset not in preset_names():
        raise ConfigError(f"preset = {preset!r}: there is no config/presets/{preset}.yaml; use one of {preset_names()}")
    return check(merge(merge(read_yaml(BASE), read_yaml(PRESETS / f"{preset}.yaml")), overrides or {}))


def check(config: Mapping) -> dict:
    """Copy of ``config`` with numbers in their own types. Raises ConfigError at the first fault."""
    schema = read_yaml(SCHEMA)
    for key in config:
        if "." in str(key):
            nested = "={".join(str(key).split(".")[:2])
            raise ConfigError(f"{key}: dotted keys are not understood; write --config '{nested}: ...}}'")
    clean = coerce(config, schema, schema)
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(clean))
    if errors:
        raise ConfigError(_explain(min(errors, key=lambda error: [str(p) for p in error.absolute_path])))
    return clean


def coerce(value: Any, schema: Mapping, root: Mapping) -> Any:
    """Give numbers the type that the schema wants, so that 1e-3, 1.0e-3 and "0.001" are equal.

    (YAML 1.1 reads ``1e-3`` as text.) Values that do not fit are left for the validator.
    """
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        # One order of keys, whichever file came first: run names and owners do not depend on overlays.
        keys = [key for key in known if key in value] + sorted((key for key in value if key not in known), key=str)
        return {key: coerce(value[key], _schema_of(key, schema), root) for key in keys}
    if isinstance(value, (list, tuple)):
        return [coerce(item, schema.get("items", {}), root) for item in value]
    if schema.get("type") in ("number", "integer") and not isinstance(value, bool):
        if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, (int, float)):
            if schema["type"] == "number":
                return float(value) if isfinite(value) else str(value)  # text, for the validator to refuse
            return int(value) if value == value and abs(value) < 2**53 and value == int(value) else value
    if schema.get("type") == "boolean" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    return value


def _schema_of(key: str, schema: Mapping) -> Mapping:
    """The schema of one key of a mapping."""
    if key in schema.get("properties", {}):
        return schema["properties"][key]
    for pattern, item in schema.get("patternProperties", {}).items():
        if re.search(pattern, str(key)):
            return item
    other = schema.get("additionalProperties")
    return other if isinstance(other, Mapping) else {}


def _explain(error: jsonschema.ValidationError) -> str:
    """One line: key, value, what is wrong, what the key means."""
    key = ".".join(str(part) for part in error.absolute_path) or "top level"
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        known = sorted(error.schema.get("properties", {}))
        unknown = sorted(str(k) for k in set(error.instance) - set(known))
        return f"{key}: unknown key {', '.join(unknown)}; known keys: {', '.join(known)}"
    if error.validator == "required":
        missing = sorted(set(error.schema["required"]) - set(error.instance))
        return f"{key}: missing key {', '.join(missing)}"
    if error.validator == "not":
        return f"{key}: {error.validator_value.get('description', error.message)}"
    value = repr(error.instance)
    value = value if len(value) <= 80 else value[:77] + "..."
    wants = {
        "type": f"must be of type {error.validator_value}",
        "enum": f"use one of {error.validator_value}",
        "minItems": "the list is empty; give at least one value",
        "uniqueItems": "the list repeats a value; give each one once",
    }.get(error.validator, f"{error.validator} is {error.validator_value}")
    about = error.schema.get("description")
    return f"{key} = {value}: {wants}" + (f" ({about})" if about else "")
