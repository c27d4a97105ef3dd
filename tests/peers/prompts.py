"""Raw prompts as a base model sees them; all written for this project.

`copy` is the headline: after two functions of one shape, a third of that shape, so most of the reply can be copied but
the names keep changing. `copy_rows` and `copy_csv` can be copied in ever longer pieces. None of them makes Gemma 3 270M
end its text within 96 greedy tokens.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text to continue."""

    name: str
    category: str
    text: str


COPY = Prompt(
    "copy",
    "copy-heavy code",
    '''def area_of_rectangle(width, height):
    """Return the area of a rectangle."""
    if width <= 0 or height <= 0:
        raise ValueError("width and height must be positive")
    area = width * height
    print(f"The area of the rectangle is {area}")
    return area


def area_of_triangle(base, height):
    """Return the area of a triangle."""
    if base <= 0 or height <= 0:
        raise ValueError("base and height must be positive")
    area = base * height / 2
    print(f"The area of the triangle is {area}")
    return area


def area_of_trapezoid(top, bottom, height):
''',
)

COPY_ROWS = Prompt(
    "copy_rows",
    "copy-heavy code",
    '''def mean_of_rows(table, skip_empty=True):
    """Return the mean of each row of a table, a list of lists of numbers."""
    means = []
    for row in table:
        values = [value for value in row if value is not None]
        if skip_empty and not values:
            continue
        means.append(sum(values) / len(values))
    return means


def largest_of_rows(table, skip_empty=True):
    """Return the largest value of each row of a table, a list of lists of numbers."""
    largest = []
    for row in table:
        values = [value for value in row if value is not None]
        if skip_empty and not values:
            continue
        largest.append(max(values))
    return largest


def smallest_of_rows(table, skip_empty=True):
''',
)

COPY_CSV = Prompt(
    "copy_csv",
    "copy-heavy code",
    '''def read_prices(path):
    """Read the prices from a CSV file and return them as a list of floats."""
    prices = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            fields = line.strip().split(",")
            if len(fields) != 2:
                raise ValueError(f"line {number}: expected a name and a price")
            prices.append(float(fields[1]))
    if not prices:
        raise ValueError("the file has no prices")
    return prices


def read_weights(path):
    """Read the weights from a CSV file and return them as a list of floats."""
    weights = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            fields = line.strip().split(",")
            if len(fields) != 2:
                raise ValueError(f"line {number}: expected a name and a weight")
            weights.append(float(fields[1]))
    if not weights:
        raise ValueError("the file has no weights")
    return weights


def read_lengths(path):
''',
)

STORY = Prompt("story", "story", "Once upon a time, in a small house at the edge of a forest, there lived")

QUESTION = Prompt(
    "question",
    "question answering",
    """Questions and answers about the night sky

Question: Why do stars twinkle while planets mostly do not?
Answer: A star is so far away that it looks like a single point, and moving air bends its thin ray of light this \
way and that. A planet looks like a tiny disc, so the bending averages out.

Question: Why is the sky dark at night?
Answer: The Sun is below the horizon, and although there are very many stars, the universe has a finite age, so \
light from most of them has not reached us yet.

Question: Why does the Moon always show us the same face, and what causes the tides in the sea?
Answer:""",
)

SUMMARY = Prompt(
    "summary",
    "summary of a given text",
    """Minutes of the allotment meeting

The meeting opened at seven in the old greenhouse. Eighteen of the thirty plot holders were present. The \
treasurer reported that the water bill had doubled since spring, because a buried pipe near plot nine leaks. Two \
plumbers were asked for an offer; the cheaper one wants four hundred and twenty euros and can start in May. The \
members agreed to pay it from the reserve. The second point was the bonfire. Several neighbours had complained \
about smoke, so the members decided that garden waste will be shredded from now on, and that the shredder will \
be shared on Saturdays. Finally, the plum trees along the fence need pruning; five members offered to help on \
the first dry weekend in March.

Summary of the meeting:
The meeting took place in the old greenhouse, and eighteen of the thirty plot holders were present. The treasurer""",
)

WARM_UP = Prompt("warm_up", "warm-up", "The harbour master opened the window, looked out and counted the boats:")
"""Shares no phrase with the others: engines that remember earlier replies gain nothing from it."""

PROMPTS = (COPY, COPY_ROWS, COPY_CSV, STORY, QUESTION, SUMMARY)


def select(names: str) -> tuple[Prompt, ...]:
    """The prompts with these comma-separated names; all of them for "all".

    Raises:
        ValueError: a name is unknown.
    """
    if names == "all":
        return PROMPTS
    known = {prompt.name: prompt for prompt in PROMPTS}
    wanted = names.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(f"unknown prompt {unknown[0]!r}; there are: {', '.join(known)}")
    return tuple(known[name] for name in wanted)
