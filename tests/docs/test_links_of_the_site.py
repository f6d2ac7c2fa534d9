"""Links that leave docs/ lead somewhere in the site, and pages load nothing from other hosts."""

from __future__ import annotations

from types import SimpleNamespace

import links
import pytest
from examples import ROOT
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def seen(text: str, at: str = "tutorials/some.md") -> str:
    """What a page says in the site."""
    config = MkDocsConfig()
    config.load_dict({"site_name": "x", "docs_dir": str(ROOT / "docs"), "plugins": []})
    config.validate()
    config.plugins._current_plugin = "test"  # as while a hook is called
    pages = {at: text, "data.md": "# Data\n", "mechanisms/index.md": "# Mechanisms\n"}
    files = Files(
        [File.generated(config, name, content=content) for name, content in pages.items()]
    )
    page = SimpleNamespace(file=files.get_file_from_path(at))
    return links.on_page_markdown(text, page, config, links.on_files(files, config))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](../data.md#labels)", "[a](../data.md#labels)"),
        ("[a](../../README.md#install)", "[a](../project/overview.md#install)"),
        ("[a](../../LICENSE)", "[a](../files/LICENSE.md)"),
        ("[a](../../leaderboard/results)", "a"),
        ("[all](../mechanisms)", "[all](../mechanisms/index.md)"),
        ("[a](../nowhere.md)", "[a](../nowhere.md)"),  # which a strict build refuses
        ("[a](https://example.org/b)", "[a](https://example.org/b)"),
        ("```\n[a](../../LICENSE)\n```\n", "```\n[a](../../LICENSE)\n```\n"),
    ],
)
def test_a_link_leads_to_what_the_site_has(written, shown):
    assert seen(written) == shown


def test_what_a_page_would_load_from_elsewhere_is_found():
    assert links.loaded_from_elsewhere('<script src="https://a.org/x.js"></script>') == [
        "https://a.org/x.js"
    ]
    assert links.loaded_from_elsewhere("<link rel=stylesheet href=http://a.org/x.css>")
    assert not links.loaded_from_elsewhere('<a href="https://a.org">a</a><img src="x.png">')


@pytest.mark.parametrize(
    ("urls", "footer"),
    [
        ("", "1.2 · Us"),
        ('repository = "https://example.org/x&y/"', "https://example.org/x&amp;y"),
        ('repository = "javascript:alert(1)"', "1.2 · Us"),
    ],
)
def test_the_footer_has_the_declared_address_alone(tmp_path, monkeypatch, urls, footer):
    text = f'[project]\nname = "x"\nversion = "1.2"\n[project.urls]\n{urls}\n'
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.delenv("MIKE_DOCS_VERSION", raising=False)
    config = MkDocsConfig()
    config.load_dict({"site_name": "x", "docs_dir": str(tmp_path / "docs"), "copyright": "Us"})
    config = links.on_config(config)
    expected = f'1.2 · Us · <a href="{footer}">Repository</a>' if "&amp;" in footer else footer
    assert config.copyright == expected
    assert config.repo_url is None
    assert "version" not in config.extra
    monkeypatch.setenv("MIKE_DOCS_VERSION", "1.2")
    assert links.on_config(config).extra["version"] == {"provider": "mike"}
