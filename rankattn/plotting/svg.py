"""Interactive SVG: every marker can be pointed at or reached with the keyboard, and says its values."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rankattn.files import replacing

SVG = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def save_svg(figure: Figure, path: str | Path, name: str) -> None:
    """Write ``figure`` with a text for every marker: panel, series, x and y.

    Ids start with ``name``, so that several figures can stand in one page.
    """
    texts = _mark(figure, name)
    with replacing(path) as temporary:
        figure.savefig(temporary, metadata={"Date": None, "Creator": None})
        tree = ElementTree.parse(temporary)
        _prefix_ids(tree.getroot(), name)
        for group in tree.iter(f"{{{SVG}}}g"):
            points = texts.get(group.get("id", "").removeprefix(f"{name}-"))
            if points:
                _describe([use for use in group.iter(f"{{{SVG}}}use")], points)
        tree.write(temporary, encoding="utf-8")


def _mark(figure: Figure, name: str) -> dict[str, list[str]]:
    """Give every line with markers an id; returns the texts of its points by id."""
    texts = {}
    for a, axes in enumerate(figure.axes):
        for i, line in enumerate(axes.lines):
            x, y = (np.asarray(values, dtype=float) for values in line.get_data())
            shown = np.isfinite(x) & np.isfinite(y)
            if line.get_marker() in (None, "", "None", "none") or not shown.any():
                continue
            line.set_gid(f"series{a}-{i}")
            label = "" if line.get_label().startswith("_") else line.get_label().replace("$", "")
            place = " ".join(part for part in (axes.get_title(), label) if part)
            texts[line.get_gid()] = [
                f"{place}: {axes.get_xlabel()} {a_:g}, {axes.get_ylabel() or 'value'} {b:.4g}".lstrip(": ")
                for a_, b in zip(x[shown], y[shown], strict=True)
            ]
    return texts


def _prefix_ids(root: ElementTree.Element, name: str) -> None:
    """Make all ids, and the references to them, start with ``name``."""
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif value.startswith("#"):
                element.set(key, f"#{name}-{value[1:]}")
            elif "url(#" in value:
                element.set(key, value.replace("url(#", f"url(#{name}-"))


def _describe(marks: list[ElementTree.Element], texts: list[str]) -> None:
    for mark, text in zip(marks, texts, strict=False):
        mark.set("class", "point")
        mark.set("tabindex", "0")
        mark.set("role", "img")
        mark.set("aria-label", text)
        ElementTree.SubElement(mark, f"{{{SVG}}}title").text = text
