"""The page at /profile: what is known of the person, to read and to edit. It holds none of it: the script asks /api/profile."""

from __future__ import annotations

from functools import cache
from html import escape
from string import Template

from mindhold import __version__
from mindhold.interfaces.http.rest.page import Page, file_text, policy_of

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Your profile: Mindhold</title>
<style>$style</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header class="top">
<h1>Your profile <small>Mindhold $version</small></h1>
<div class="fields">
<label><span class="hidden-label">Access key; kept on this page only</span><input id="key" type="password" placeholder="Key, if one is needed" autocomplete="off"></label>
</div>
</header>
<main id="content" class="profile" tabindex="-1">
<p class="lead">What agents are given when a conversation begins. It is kept on the server's machine, and nothing in it fades.</p>
<noscript><p class="bad">This page needs its script; <code>mindhold profile</code> does the same in a shell.</p></noscript>
<p id="told" role="status" aria-live="polite"></p>
<section>
<h2>In your own words</h2>
<form class="said" data-section="statement"><label for="statement">Say something</label>
<input id="statement" name="value" required maxlength="2000" placeholder="My favourite colour is blue" autocomplete="off"><button type="submit">Keep</button></form>
</section>
$sections
</main>
<template id="row"><tr><th scope="row"></th><td><form class="edit"><input name="value" required autocomplete="off"><button type="submit">Save</button><button type="button" class="past">History</button><button type="button" class="gone">Remove</button></form><ol class="editions" hidden></ol></td></tr></template>
<script>$script</script>
</body>
</html>
""")
# Section, heading, what the two fields of a new entry are called; "" for a field that it hasn't.
_SECTIONS = (
    ("name", "Name", "", "Your name"),
    ("preferences", "Preferences", "What, such as tone", "How, such as casual"),
    ("facts", "Facts", "What, such as favorite_color", "Such as blue"),
    ("contacts", "Contacts", "Who", "What they are to you"),
    ("notes", "Notes", "", "Anything else"),
)


@cache
def profile_page() -> Page:
    """The same for every server of this version."""
    style = file_text("page.css") + file_text("profile.css")
    script = file_text("profile.js")
    html = _PAGE.substitute(
        style=style,
        script=script,
        version=escape(__version__),
        sections="".join(_section(*one) for one in _SECTIONS),
    )
    return Page(html, policy_of(style, script))


def _section(section: str, heading: str, label: str, value: str) -> str:
    fields = "".join(
        f'<label><span class="hidden-label">{escape(words)}</span><input name="{name}" required placeholder="{escape(words)}"'
        ' autocomplete="off"></label>'
        for name, words in (("label", label), ("value", value))
        if words
    )
    return (
        f'<section id="{section}"><h2>{heading}</h2><div class="scroll"><table><tbody></tbody></table></div>'
        f'<p class="also none" hidden>Nothing yet.</p><form class="new" data-section="{section}">{fields}'
        '<button type="submit">Add</button></form></section>'
    )
