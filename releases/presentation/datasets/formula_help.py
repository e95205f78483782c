"""What a formula can say, in plain words: each function with an example."""

from __future__ import annotations

#: A formula, and what it gives.
Example = tuple[str, str]

OF_A_ROW: tuple[Example, ...] = (
    ("weight / (height * height)", "calculating with + - * / and brackets, here a body mass index"),
    ("years_between(birth, 2026-01-01)", "whole years from one date to another, here the age on that day"),
    ("days_between(admitted, discharged)", "days from one date to another"),
    ("year(admitted) * 100 + month(admitted)", "the year and the month of a date, here in one number"),
    ("day(admitted)", "the day of the month"),
    ("weekday(admitted)", "a number from 1 for Monday to 7 for Sunday"),
    ('if(age >= 18 and not smoker = "yes", "low", "high")', "one of two values; compare with = != < <= > >="),
    ("coalesce(discharged, admitted)", "the first value that is not missing"),
    ("is_missing(weight)", "true where there is no value, else false"),
    ('recode(ward, {"S1": "surgery", "S2": "surgery"}, "other")', "what a table has beside a text, else the last text"),
    ("prefix(postcode, 2)", "the first characters of a text"),
    ('text(age) = "007"', "what the file writes in a column of numbers or dates"),
    ("round(weight)", "the nearest whole number"),
    ("floor(weight)", "the whole number below"),
    ("abs(change)", "a number without its minus"),
    ("min(weight, 200)", "the smaller of two numbers"),
    ("max(weight, 30)", "the greater of two numbers"),
)
OF_A_PERSON: tuple[Example, ...] = (
    ("count_per_person()", "how many rows the person has"),
    ('count_per_person(ward = "surgery")', "in how many of them something is true"),
    ("sum_per_person(cost, 0, 5000)", "the total; each row counts as at least 0 and at most 5000"),
    ('any_per_person(kind = "emergency")', "true if it is true in one row at least"),
    ('all_per_person(kind = "planned")', "true if it is true in every row that has a value"),
    ("min_per_person(admitted)", "the least number, or the earliest date"),
    ("max_per_person(age)", "the greatest number, or the latest date"),
    ("most_frequent_per_person(ward)", "the text that most rows have"),
    ("first_per_person(ward, admitted)", "the value in the row with the first date"),
    ("last_per_person(weight, admitted)", "the value in the row with the last date"),
)
AROUND: tuple[Example, ...] = (
    ("sum_per_person(cost, 0, 5000) / count_per_person()", "the mean cost of a row"),
    ('if(max_per_person(age) >= 65, "old", "young")', "one of two texts"),
    (
        "last_per_person(weight, admitted) - first_per_person(weight, admitted)",
        "by how much a number has changed from the first row to the last",
    ),
    ("days_between(min_per_person(admitted), max_per_person(admitted))", "days from the first visit to the last"),
)
#: With their titles, as the page shows them.
FORMULA_HELP = (
    ("Of each row", OF_A_ROW),
    ("Of all rows of a person", OF_A_PERSON),
    ("Calculated from these", AROUND),
)
