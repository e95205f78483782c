"""The columns of NIST's table of 2019, declared from what NIST publishes about it and from nothing in its rows.

Categories, and the ranges of numbers, are those of the data dictionary and of the schema beside the table
(https://github.com/usnistgov/SDNist, data_dictionary.json and national2019.json); industries are codes of the Census
Bureau. Numbers have bins of a width that one would choose without having seen a row: years of age, round incomes.
DENSITY is a fact about an area, people to a square mile, and follows from PUMA: nobody measures it, it is put back.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from releases.engine.domain.schema import Schema

AREA, DENSITY = "PUMA", "DENSITY"
#: How a value is written that is not there.
MISSING = "N"
#: Columns that are numbers.
NUMBERS = ("AGEP", "PINCP", "POVPIP", "PWGTP", "WGTP")
#: Of POVPIP, the largest: five times the poverty threshold or more.
MOST_POVPIP = 501


def _words(text: str) -> list[str]:
    return text.split()


DEMOGRAPHIC = _words("AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET DEYE")
SIMPLE = _words(
    "PUMA AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT DENSITY INDP_CAT EDU PINCP PINCP_DECILE POVPIP DVET "
    "DREM DPHY DEYE DEAR"
)
ALL = [*SIMPLE, "INDP", "PWGTP", "WGTP"]

DENSITIES = {
    "01-01301": 2731.2, "06-07502": 50441.6, "06-08507": 3305.1, "08-00803": 3393.2, "13-04600": 3670.4,
    "17-03529": 11224.3, "17-03531": 11171.6, "19-01700": 3572.3, "24-01004": 4187.9, "26-02702": 4817.2,
    "28-01100": 2674.3, "29-01901": 5434.8, "30-00600": 16.3, "32-00405": 7990.5, "36-03710": 52864.7,
    "36-04010": 33632.6, "38-00100": 73.0, "40-00200": 90.7, "51-01301": 11162.8, "51-51255": 15097.5,
}  # fmt: skip

_INDUSTRIES = _words("""
170 180 190 270 280 290 370 380 390 470 490 570 580 590 670 680 690 770 1070 1080 1090 1170 1180 1190 1270 1280 1290
1370 1390 1480 1590 1670 1691 1770 1790 1870 1880 1890 1990 2070 2090 2170 2180 2190 2270 2280 2290 2370 2380 2390 2480
2490 2570 2590 2670 2680 2690 2770 2780 2870 2880 2890 2970 2980 3070 3080 3095 3170 3180 3291 3365 3370 3380 3390 3470
3490 3570 3580 3590 3670 3680 3690 3770 3780 3790 3875 3895 3960 3970 3980 3990 4070 4080 4090 4170 4180 4195 4265 4270
4280 4290 4370 4380 4390 4470 4480 4490 4560 4570 4580 4585 4590 4670 4680 4690 4770 4780 4795 4870 4880 4890 4971 4972
4980 4990 5070 5080 5090 5170 5180 5190 5275 5280 5295 5370 5381 5391 5470 5480 5490 5570 5580 5593 5670 5680 5690 5790
6070 6080 6090 6170 6180 6190 6270 6280 6290 6370 6380 6390 6470 6480 6490 6570 6590 6670 6672 6680 6690 6695 6770 6780
6870 6880 6890 6970 6991 6992 7071 7072 7080 7181 7190 7270 7280 7290 7370 7380 7390 7460 7470 7480 7490 7570 7580 7590
7670 7680 7690 7770 7780 7790 7860 7870 7880 7890 7970 7980 7990 8070 8080 8090 8170 8180 8191 8192 8270 8290 8370 8380
8390 8470 8561 8562 8563 8564 8570 8580 8590 8660 8670 8680 8690 8770 8780 8790 8870 8891 8970 8980 8990 9070 9080 9090
9160 9170 9180 9190 9290 9370 9380 9390 9470 9480 9490 9570 9590 9670 9680 9690 9770 9780 9790 9920
""")


def _codes(first: int, last: int) -> list[str]:
    return [str(code) for code in range(first, last + 1)]


_CATEGORIES = {
    AREA: list(DENSITIES),
    "SEX": _codes(1, 2),
    "MSP": [MISSING, *_codes(1, 6)],
    "HISP": _codes(0, 4),
    "RAC1P": _codes(1, 9),
    "NOC": [MISSING, *_codes(0, 19)],
    "NPF": [MISSING, *_codes(2, 20)],
    "HOUSING_TYPE": _codes(1, 3),
    "OWN_RENT": _codes(0, 2),
    "INDP": [MISSING, *_INDUSTRIES],
    "INDP_CAT": [MISSING, *_codes(0, 18)],
    "EDU": [MISSING, *_codes(1, 12)],
    "PINCP_DECILE": [MISSING, *_codes(0, 9)],
    "DVET": [MISSING, *_codes(1, 6)],
    "DREM": [MISSING, *_codes(1, 2)],
    "DPHY": [MISSING, *_codes(1, 2)],
    "DEYE": _codes(1, 2),
    "DEAR": _codes(1, 2),
}
# An income of a round number belongs to those below it: bins begin one dollar above.
_INCOMES = [
    *(-9000, 0),
    *(
        thousand * 1000 + 1
        for thousand in chain(range(0, 20, 1), range(20, 60, 5), range(60, 100, 10), (100, 120, 150, 200, 300, 500))
    ),
    1_341_000,
]
_WEIGHTS = [*range(0, 150, 10), *range(150, 300, 25), *range(300, 501, 50), 750, 1000, 9999]
_EDGES = {
    "AGEP": [*range(100)],
    "PINCP": _INCOMES,
    "POVPIP": [*range(0, 500, 20), MOST_POVPIP, MOST_POVPIP + 1],
    "PWGTP": [1, *_WEIGHTS[1:]],
    "WGTP": [0, 1, *_WEIGHTS[1:]],
}


def schema(features: list[str]) -> Schema:
    """Of these columns, DENSITY left out. A row is a person, added or removed."""
    return Schema.from_json(
        {
            "version": 1,
            "unit": {"kind": "row"},
            "neighbours": "add_remove",
            "columns": [_column(name) for name in features if name != DENSITY],
        }
    )


def _column(name: str) -> dict[str, Any]:
    if name in _CATEGORIES:
        return {"name": name, "type": "categorical", "categories": _CATEGORIES[name]}
    missing = {"missing": [MISSING], "missing_as": "no number"} if name in ("PINCP", "POVPIP") else {}
    # PINCP is written with a decimal place, which is always 0.
    return {"name": name, "type": "number", "decimals": 0, "edges": _EDGES[name], **missing}
