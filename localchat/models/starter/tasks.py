"""Small exercises at which a tiny model can copy: repeat, rename, complete, summarise, translate, short facts, stories.

Each returns a question and its answer. They teach the pair to copy from the prompt, which the guide alone would not.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from localchat.models.starter.sentences import fenced, function, function_name, load_words, paragraph, sentence, story

Task = tuple[str, str]


def repeat_text(rng: Random) -> Task:
    """Copy a few made-up sentences."""
    frame = rng.choice(
        (
            "Repeat this text: {}",
            "Repeat: {}",
            "Copy this text exactly: {}",
            "Say this back to me: {}",
            "Write this again:\n\n{}",
            "Repeat the following text word for word.\n\n{}",
            "Copy:\n{}",
            "Please repeat: {}",
            "Echo this: {}",
        )
    )
    text = " ".join(paragraph(rng, rng.randrange(1, 6)))
    return frame.format(text), text


def repeat_words(rng: Random) -> Task:
    """Copy words and numbers in no order, so that nothing but copying helps."""
    words = load_words()
    pool = words.lists["nouns"] + words.lists["actions"] + words.lists["adjectives"] + words.lists["animals"]
    picked = [rng.choice(pool) if rng.random() < 0.8 else str(rng.randrange(1000)) for _ in range(rng.randrange(3, 16))]
    text = " ".join(picked)
    return rng.choice(("Repeat: {}", "Repeat these words: {}", "Copy this: {}", "Say: {}")).format(text), text


def repeat_code(rng: Random) -> Task:
    """Copy one or two functions."""
    code = "\n\n\n".join(function(function_name(rng), rng) for _ in range(rng.randrange(1, 3)))
    frame = rng.choice(
        (
            "Repeat this code:\n\n{}",
            "Copy this code exactly:\n{}",
            "Write this function again:\n{}",
            "Show this code again:\n{}",
            "Repeat the following Python code unchanged.\n\n{}",
        )
    )
    return frame.format(fenced(code)), fenced(code)


def rename(rng: Random) -> Task:
    """Copy code with one function called something else."""
    old, new = function_name(rng), function_name(rng)
    code = "\n\n\n".join([function(old, rng)] + [function(function_name(rng), rng) for _ in range(rng.randrange(2))])
    if rng.random() < 0.4:
        code += f"\n\n\nprint({old}({rng.randrange(9)}))"
    frame = rng.choice(
        (
            "Rename the function {old} to {new} in this code:\n\n{code}",
            "Rename {old} to {new}:\n{code}",
            "In this code, change the name {old} to {new}.\n\n{code}",
            "Replace {old} by {new} in this code:\n{code}",
            "Rename `{old}` to `{new}` in the following Python code and return the whole code.\n\n{code}",
            "Rewrite this code with {old} renamed to {new}:\n{code}",
        )
    )
    return frame.format(old=old, new=new, code=fenced(code)), fenced(code.replace(old, new))


def add_docstring(rng: Random) -> Task:
    """Copy a function with a docstring put in."""
    name = function_name(rng)
    code = function(name, rng)
    head, body = code.split("\n", 1)
    action, noun = name.split("_")
    answer = f'{head}\n    """{action.capitalize()} the {noun}."""\n{body}'
    frame = rng.choice(
        ("Add a docstring to this function:\n\n{}", "Document this function:\n{}", "Write a docstring:\n{}")
    )
    return frame.format(fenced(code)), fenced(answer)


def complete_pattern(rng: Random) -> Task:
    """Write the same functions once more for another noun."""
    words = load_words()
    old, new = rng.sample(sorted(set(words.lists["nouns"])), 2)
    variable = words.pick("variables", rng)
    picked = rng.sample(words.lists["actions"], rng.randrange(2, 4))

    def functions(noun: str) -> str:
        return "\n\n".join(
            f"def {action}_{noun}({variable}):\n    {noun} = {noun}_store.{action}({variable})\n    return {noun}"
            for action in picked
        )

    frame = rng.choice(
        (
            "Write the same functions for {new}:\n\n{code}",
            "Add the same functions for {new}.\n\n{code}",
            "Complete this code with the same functions for {new}:\n{code}",
            "Do the same for {new}:\n{code}",
        )
    )
    return frame.format(new=new, code=fenced(functions(old))), fenced(functions(new))


def summarise(rng: Random) -> Task:
    """Answer with the first sentence of the text."""
    text = paragraph(rng, rng.randrange(3, 8))
    frame = rng.choice(
        (
            "Summarise: {}",
            "Summarise this text in one sentence: {}",
            "Summarize the following text.\n\n{}",
            "Sum this up: {}",
            "What is this text about? {}",
            "Give a short summary of this text:\n\n{}",
            "Summary please: {}",
        )
    )
    return frame.format(" ".join(text)), text[0]


def question_about(rng: Random) -> Task:
    """Find who did something in a short text."""
    words = load_words()
    facts = [
        (name, verb, thing)
        for name, verb, thing in zip(
            rng.sample(words.lists["people"], 3),
            rng.sample(words.lists["verbs"], 3),
            rng.sample(words.lists["things"], 3),
            strict=True,
        )
    ]
    text = " ".join(f"{name} {verb} {thing} {words.pick('places', rng)}." for name, verb, thing in facts)
    name, verb, thing = rng.choice(facts)
    frame = rng.choice(("{text} Who {verb} {thing}?", "Text: {text}\nQuestion: Who {verb} {thing}?"))
    return frame.format(text=text, verb=verb, thing=thing), f"{name} {verb} {thing}."


def short_fact(rng: Random) -> Task:
    """A small sum, a capital, an opposite or a trivial fact."""
    words = load_words()
    kind = rng.randrange(5)
    if kind == 0:
        a, b = rng.randrange(0, 13), rng.randrange(0, 13)
        return rng.choice(("What is {} + {}?", "{} + {}", "Add {} and {}", "{} plus {}?")).format(a, b), f"{a + b}"
    if kind == 1:
        a, b = rng.randrange(1, 11), rng.randrange(1, 11)
        return rng.choice(("What is {} * {}?", "{} times {}?", "Multiply {} and {}")).format(a, b), f"{a * b}"
    if kind == 2:
        country, city = words.pair("capitals", rng)
        frame = rng.choice(
            ("What is the capital of {}?", "capital of {}", "Which city is the capital of {}?", "{} capital?")
        )
        return frame.format(country), f"The capital of {country} is {city}."
    if kind == 3:
        word, other = words.pair("opposites", rng)
        return rng.choice(("What is the opposite of {}?", "opposite of {}", "antonym of {}")).format(word), f"{other}"
    question, answer = words.pair("facts", rng)
    return question + rng.choice(("?", "")), answer


def count(rng: Random) -> Task:
    """Count up or down."""
    low = rng.randrange(0, 20)
    high = low + rng.randrange(3, 15)
    if rng.random() < 0.3:
        return f"Count down from {high} to {low}", ", ".join(str(n) for n in range(high, low - 1, -1))
    frame = rng.choice(("Count from {} to {}", "List the numbers from {} to {}", "count {} to {}"))
    return frame.format(low, high), ", ".join(str(n) for n in range(low, high + 1))


def translate(rng: Random) -> Task:
    """Translate one or a few simple sentences."""
    words = load_words()
    language = rng.choice(("german", "french"))
    pairs = []
    for _ in range(rng.randrange(1, 4)):
        subject, predicate = words.pair(f"{language}.subjects", rng), words.pair(f"{language}.predicates", rng)
        pairs.append((f"{subject[0]} {predicate[0]}.", f"{subject[1]} {predicate[1]}."))
    frame = rng.choice(
        (
            "Translate into {}: {}",
            "Translate to {}: {}",
            "Translate this text into {}.\n\n{}",
            "Say this in {}: {}",
            "What is this in {}? {}",
        )
    )
    source, result = (" ".join(part) for part in zip(*pairs, strict=True))
    return frame.format(language.capitalize(), source), result


def tell_story(rng: Random) -> Task:
    """A short story from the template."""
    frame = rng.choice(
        (
            "Tell me a story",
            "Write a short story",
            "Tell me a tale",
            "A story please",
            "Write a story about an animal",
            "Tell me a short story about a treasure",
            "Invent a story",
            "I want to hear a story",
            "Write me a fairy tale",
        )
    )
    return frame + rng.choice((".", "", "!")), story(rng)


def list_items(rng: Random) -> Task:
    """Turn a few things into a Markdown list."""
    words = load_words()
    items = rng.sample(words.lists["things"] + words.lists["animals"], rng.randrange(3, 7))
    frame = rng.choice(("Make a list of: {}", "Write this as a Markdown list: {}", "As bullet points: {}"))
    return frame.format(", ".join(items)), "\n".join(f"- {item}" for item in items)


def one_sentence(rng: Random) -> Task:
    """Copy a single sentence in capitals or as a quotation."""
    text = sentence(rng)
    return rng.choice(("Quote this: {}", "Put this in quotation marks: {}")).format(text), f'"{text}"'


TASKS: tuple[tuple[Callable[[Random], Task], float], ...] = (
    (repeat_text, 1.2),
    (repeat_words, 2.5),
    (repeat_code, 1.0),
    (rename, 1.8),
    (add_docstring, 0.7),
    (complete_pattern, 1.2),
    (summarise, 1.4),
    (question_about, 0.8),
    (short_fact, 1.6),
    (count, 0.5),
    (translate, 1.2),
    (tell_story, 0.9),
    (list_items, 0.5),
    (one_sentence, 0.2),
)


def exercise(rng: Random) -> Task:
    """One exercise of any kind."""
    made: Task = rng.choices([task for task, _ in TASKS], [share for _, share in TASKS])[0](rng)
    return made
