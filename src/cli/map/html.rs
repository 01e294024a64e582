//! The map as a page of its own: nothing is loaded from anywhere.

use std::fmt::Write as _;

use super::super::render::{percent, printable};
use super::palette::Colour;
use super::picture::{Picture, grouped};
use super::svg::{Legend, escaped, svg};

const STYLE: &str = "\
:root{color-scheme:light}body{margin:0;background:#fff;color:#1b2430;font:15px/1.45 system-ui,'Segoe UI','DejaVu Sans',sans-serif}
main{padding:24px;max-width:1500px;margin:auto}h1{font-size:22px;margin:0 0 4px;padding-left:32px}
.when{color:#596273;margin:0 0 8px;padding-left:32px}section{display:flex;gap:16px;flex-wrap:wrap;align-items:flex-start;margin-bottom:40px}
svg{max-width:100%;height:auto}table{border-collapse:collapse;margin-top:92px;font-size:14px}
th{font-weight:600;color:#596273;text-align:right;padding:2px 10px;border-bottom:1px solid #dde1e7;position:sticky;top:0;background:#fff}
td{padding:2px 10px;text-align:right;font-variant-numeric:tabular-nums}th:first-child,td:first-child{text-align:left}
.hosts{max-height:1120px;overflow:auto}tbody tr{cursor:default}tbody tr:hover{background:#f0f3f7}
i{display:inline-block;width:13px;height:13px;border-radius:2px;margin-right:8px;vertical-align:-2px}
.picked .t{opacity:.14}.picked .t.on{opacity:1}.t:hover{stroke:#1b2430;stroke-width:2}
#tip{position:fixed;display:none;pointer-events:none;background:#1b2430;color:#fff;padding:7px 11px;border-radius:5px;white-space:pre;font-size:13px;line-height:1.4;box-shadow:0 2px 10px #0004}";

const SCRIPT: &str = "\
const tip=document.getElementById('tip');
document.querySelectorAll('svg .t').forEach(t=>{const n=t.querySelector('title');t.dataset.tip=n.textContent;n.remove()});
document.addEventListener('mousemove',e=>{const t=e.target.closest&&e.target.closest('.t');
if(!t){tip.style.display='none';return}
tip.textContent=t.dataset.tip;tip.style.display='block';
tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';
tip.style.top=Math.min(e.clientY+14,innerHeight-tip.offsetHeight-8)+'px'});
document.querySelectorAll('tr[data-host]').forEach(r=>{const s=r.closest('section').querySelector('svg');
const of=()=>s.querySelectorAll('.h'+r.dataset.host);
r.addEventListener('mouseenter',()=>{s.classList.add('picked');of().forEach(t=>t.classList.add('on'))});
r.addEventListener('mouseleave',()=>{s.classList.remove('picked');of().forEach(t=>t.classList.remove('on'))})});";

/// The page. `heading` says which store it is of, and when.
pub(super) fn html(pictures: &[Picture<'_>], heading: &str) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>IP pools</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n<h1>IP pools</h1>\n<p class=\"when\">{}. Point at a tile or a host.</p>\n",
        escaped(&printable(heading))
    );
    for picture in pictures {
        page.push_str("<section>\n");
        page.push_str(&svg(picture, Legend::None));
        hosts(&mut page, picture);
        page.push_str("</section>\n");
    }
    let _ =
        write!(page, "</main>\n<div id=\"tip\"></div>\n<script>\n{SCRIPT}\n</script>\n</body>\n</html>\n");
    page
}

fn hosts(page: &mut String, picture: &Picture<'_>) {
    page.push_str("<div class=\"hosts\"><table>\n<thead><tr><th>Host</th><th>Blocks</th><th>In use</th><th>Share</th></tr></thead>\n<tbody>\n");
    for (number, host) in picture.hosts.iter().enumerate() {
        let _ = writeln!(
            page,
            "<tr data-host=\"{number}\"><td><i style=\"background:{}\"></i>{}</td><td>{}</td><td>{}</td><td>{}%</td></tr>",
            Colour::of_host(number),
            escaped(&printable(&host.name)),
            grouped(host.blocks),
            grouped(host.addresses),
            percent(host.addresses, picture.in_use)
        );
    }
    page.push_str("</tbody>\n</table></div>\n");
}
