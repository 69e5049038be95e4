"""Style of a report's page: light and dark, wide and narrow, on screen and on paper."""

from __future__ import annotations

STYLE = """
:root{--bg:#fff;--ink:#1c2024;--soft:#60646c;--rule:#e0e2e6;--panel:#f7f8fa;--ok:#1a7f43;--ok-bg:#e6f6ea;--no:#c4251d;--no-bg:#fdeceb;
--on:#0b62c4;--on-bg:#e6f1fd;--wait:#8f5a00;--wait-bg:#fff4d6;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--bg:#16181b;--ink:#e8eaed;--soft:#a3a8b0;--rule:#33373d;--panel:#1e2125;--ok:#55c07c;
--ok-bg:#17301f;--no:#ff8078;--no-bg:#3b1b1a;--on:#6cb2ff;--on-bg:#12294a;--wait:#f0b94a;--wait-bg:#382a0d}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1100px;margin:0 auto;padding:24px 20px 60px;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.3em 0;white-space:pre-line;unicode-bidi:plaintext}
h2{font-size:1.1rem;margin:2em 0 .6em;border-bottom:1px solid var(--rule);padding-bottom:.25em}
h3{font-size:.85rem;color:var(--soft);margin:1.1em 0 .3em;font-weight:600}
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--panel);border:1px solid var(--rule);border-radius:6px;padding:10px 12px;margin:0;white-space:pre-wrap;
max-height:28em;overflow:auto;unicode-bidi:plaintext}
ul,ol{margin:.3em 0;padding-left:1.4em}
a{color:inherit}
dl{margin:.6em 0;display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:2px 28px}
dl div{display:grid;grid-template-columns:8.5em 1fr;gap:10px}
dt{color:var(--soft)}
dd{margin:0;unicode-bidi:plaintext;white-space:pre-line}
.ending{margin:.2em 0 1em}
.note{color:var(--soft)}
.badge{display:inline-block;margin:0;padding:2px 12px;border-radius:99px;font-weight:600;background:var(--panel);border:1px solid var(--rule)}
.badge.is-completed{background:var(--ok-bg);color:var(--ok);border-color:currentColor}
.badge.is-failed,.badge.is-cancelled{background:var(--no-bg);color:var(--no);border-color:currentColor}
.badge.is-active{background:var(--on-bg);color:var(--on);border-color:currentColor}
.badge.is-paused,.badge.is-interrupted{background:var(--wait-bg);color:var(--wait);border-color:currentColor}
.warnings li{color:var(--wait)}
.files{columns:3 18em}
.bars{display:grid;gap:10px;max-width:620px}
.bar{display:block;height:9px;border-radius:9px;background:var(--rule);overflow:hidden;margin:3px 0}
.bar i{display:block;height:100%;background:var(--ok)}
.bar .high{background:var(--wait)}
.bar .full{background:var(--no)}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:8px;background:var(--bg)}
.scroll svg{display:block;margin:0 auto}
.scroll .page{display:none}
.row{display:grid;grid-template-columns:minmax(9em,22%) 1fr;gap:12px;align-items:center;padding:2px 0}
.row .name{display:flex;justify-content:space-between;gap:8px;min-width:0}
.row .name a{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-decoration:none}
.row .name em{font-style:normal;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums}
.track{position:relative;height:16px;background:var(--panel);border-radius:4px;overflow:hidden}
.track i{position:absolute;top:2px;bottom:2px;border-radius:3px;background:var(--soft)}
.track b{position:absolute;top:0;bottom:0;width:1px;background:var(--ink)}
.track .is-completed{background:var(--ok)}
.track .is-failed,.track .is-cancelled{background:var(--no)}
.track .is-open{background:var(--on)}
.track .is-limit,.track .is-blocked,.track .is-interrupted,.track .is-cut{background:var(--wait)}
.scale .track{background:none;display:flex;justify-content:space-between;color:var(--soft);font-size:12px}
details{border:1px solid var(--rule);border-left:4px solid var(--rule);border-radius:6px;margin:6px 0;padding:0 14px}
details.is-completed{border-left-color:var(--ok)}
details.is-failed,details.is-cancelled{border-left-color:var(--no)}
details.is-in_progress{border-left-color:var(--on)}
details.is-needs_decision{border-left-color:var(--wait)}
details[open]{padding-bottom:14px}
summary{display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline;padding:8px 0;cursor:pointer;list-style:none}
summary::-webkit-details-marker{display:none}
summary .mark{width:1em;text-align:center}
summary .id{font-weight:600}
summary .title{flex:1 1 12em;unicode-bidi:plaintext}
summary .figures{color:var(--soft);font-variant-numeric:tabular-nums}
.is-completed .mark,.check-passed{color:var(--ok)}
.is-failed .mark,.check-failed{color:var(--no)}
.diff{list-style:none;padding-left:0;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
@media (max-width:640px){main{padding:16px 12px 40px}dl div{grid-template-columns:7em 1fr}
.row{grid-template-columns:1fr;gap:0;padding:4px 0}.row.scale .name{display:none}}
@media print{details{break-inside:avoid}.scroll{overflow:visible}.scroll svg{max-width:100%;height:auto}pre{max-height:none}}
""".strip()
