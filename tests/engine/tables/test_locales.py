"""What the country of a file proposes, compared with what is known of some countries."""

import pytest

from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import ENCODINGS, FileFacts, UnreadableTable
from releases.engine.tables.files.ingest import check_start, ingest
from releases.engine.tables.locales import countries

#: By locale the country, its decimal sign, its thousands sign, its dates and its code page.
KNOWN = {
    "de_DE": ("Germany", ",", ".", "DD.MM.YYYY", "windows-1252"),
    "de_CH": ("Switzerland (German)", ".", "'", "DD.MM.YYYY", "windows-1252"),
    "fr_FR": ("France", ",", "space", "DD/MM/YYYY", "windows-1252"),
    "en_US": ("United States", ".", ",", "MM/DD/YYYY", "windows-1252"),
    "en_GB": ("United Kingdom", ".", ",", "DD/MM/YYYY", "windows-1252"),
    "nl_NL": ("Netherlands", ",", ".", "DD-MM-YYYY", "windows-1252"),
    "sv_SE": ("Sweden", ",", "space", "YYYY-MM-DD", "windows-1252"),
    "pl_PL": ("Poland", ",", "space", "DD.MM.YYYY", "windows-1250"),
    "sr_Latn_RS": ("Serbia (Serbian, Latin)", ",", ".", "DD.MM.YYYY", "windows-1250"),
    "sr_Cyrl_RS": ("Serbia (Serbian, Cyrillic)", ",", ".", "DD.MM.YYYY", "windows-1251"),
    "el_GR": ("Greece", ",", ".", "DD/MM/YYYY", "windows-1253"),
    "tr_TR": ("Türkiye", ",", ".", "DD.MM.YYYY", "windows-1254"),
    "ja_JP": ("Japan", ".", ",", "YYYY/MM/DD", ""),
}


@pytest.fixture
def start(tmp_path):
    def look(content, **facts):
        source = tmp_path / "sent.csv"
        source.write_bytes(content)
        return check_start(source, facts=FileFacts(**facts)).facts

    return look


def test_countries_write_numbers_and_dates_as_is_known_of_them():
    for locale, known in KNOWN.items():
        has = FileFacts(locale=locale).habits
        assert (has.country, has.decimal, has.thousands, has.date_format, has.encoding) == known
    assert FileFacts(locale="de-DE").locale == "de_DE"
    assert FileFacts().habits is None


def test_every_country_that_can_be_chosen_has_a_name_of_its_own_and_facts_that_go_together():
    assert len(set(countries().values())) == len(countries()) > 300
    for locale in countries():
        facts = FileFacts(locale=locale).with_habits()
        assert facts.habits.encoding in {"", *ENCODINGS}
        assert facts.with_habits() == facts
    for wrong in ("de", "Germany", "de_XX", "xx_DE", "../de_DE"):
        with pytest.raises(InvalidInput, match="must be the code of a language and a country"):
            FileFacts(locale=wrong)


def test_a_country_proposes_the_signs_of_numbers_where_nothing_else_is_declared(start):
    german = b"a;b\n1,5;1.000\n"
    found = start(german, locale="de_DE")
    assert (found.separator, found.decimal, found.thousands) == (";", ",", ".")
    assert found.in_words() == "from Germany, separator semicolon, UTF-8, decimal sign comma, thousands sign point"
    # A decimal sign of another country comes without the thousands sign of this one, which it may be.
    found = start(german, locale="de_DE", decimal=".")
    assert (found.decimal, found.thousands) == (".", "")
    found = start(b"1;2\n", locale="de_DE", has_header=False)
    assert (found.separator, found.decimal) == (";", ",")
    assert start(b"1,2\n", locale="en_GB", has_header=False).separator == ","
    # Where values have commas between them, numbers cannot have them between thousands.
    found = start(b"a,b\n1,2\n", locale="en_GB")
    assert (found.separator, found.decimal, found.thousands) == (",", ".", "")


def test_signs_that_contradict_the_country_are_asked_about(start):
    with pytest.raises(UnreadableTable, match="commas separate the values, and numbers of Germany have a comma"):
        start(b"a,b\n1.5,2\n", locale="de_DE")
    assert start(b"a,b\n1.5,2\n", locale="de_DE", decimal=".").decimal == "."
    with pytest.raises(UnreadableTable, match="must be chosen, a point or a comma, where semicolons"):
        start(b"a;b\n1.5;2\n")


def test_the_code_page_of_the_country_is_named_where_text_is_not_unicode_and_never_taken_unasked(start):
    for locale, encoding, name in (
        ("pl_PL", "windows-1250", "Windows-1250"),
        ("ru_RU", "windows-1251", "Windows-1251"),
    ):
        content = ("a;b\nŁódź;1\n" if locale == "pl_PL" else "a;b\nМосква;1\n").encode(encoding)
        with pytest.raises(UnreadableTable, match=rf"Line 2 is not UTF-8 text. .*mostly {name}"):
            start(content, locale=locale)
        assert start(content, locale=locale, encoding=encoding).encoding == encoding
    with pytest.raises(UnreadableTable, match="Choose the encoding of the file, or save it as UTF-8"):
        start(b"a;b\n\xff;1\n", locale="ja_JP", decimal=".")


def test_what_is_proposed_of_a_file_is_stored_with_it(tmp_path):
    (tmp_path / "sent").write_bytes("a;b\nŁódź;1,5\n".encode("windows-1250"))
    facts = FileFacts(locale="pl_PL", encoding="windows-1250")
    stored = ingest(tmp_path / "sent", tmp_path / "stored.parquet", digest_key=b"k", facts=facts)
    assert (stored.facts.decimal, stored.facts.thousands) == (",", "space")
    assert stored.facts.number_form.decimal == ","
