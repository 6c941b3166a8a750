"""Pages that carry everything with them, and show people's words as they are."""

from countermax._core.page import grid, heading, paragraph, picture, preformatted, write_page


def test_a_page_shows_words_and_numbers_as_they_are(tmp_path):
    elements = [
        heading("a < b"),
        paragraph("R&D", note=True),
        grid(("name", "number"), [("<x>", 0.12345), ("none", None)]),
        picture(b"bytes", 'a "picture"'),
        preformatted("All", "{}"),
    ]
    page = write_page(tmp_path / "page.html", "T & T", elements).read_text()
    for part in ("<h2>a &lt; b</h2>", '<p class="note">R&amp;D</p>', "<td>&lt;x&gt;</td><td>0.123</td>", "<td></td>"):
        assert part in page
    assert "<title>T &amp; T</title>" in page
    assert 'alt="a &quot;picture&quot;" src="data:image/png;base64,' in page
    assert "http" not in page


def test_nothing_that_people_name_becomes_part_of_the_page(tmp_path):
    evil = "\"'></title></script><script>alert(1)</script>{body}<!--"
    elements = [
        heading(evil),
        paragraph(evil),
        grid((evil,), [(evil,)]),
        picture(b"", evil),
        preformatted(evil, evil),
    ]
    page = write_page(tmp_path / "page.html", evil, elements).read_text()
    assert "<script" not in page
    assert "</script" not in page
    assert "<!--" not in page
    assert page.count("<title>") == page.count("</title>") == 1
    assert 'alt="&quot;&#x27;&gt;' in page
