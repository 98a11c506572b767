//! A page of its own about a history: memory over events, and how it lies at any of them. The page holds the history itself, and a script
//! draws it; nothing comes from anywhere else.
//!
//! Invariant: text from files is escaped; the same history gives the same bytes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::record::{Category, Change, Timeline};

use super::chart::escape;
use super::palette;

const PAGE: &str = include_str!("page.css");
const STYLE: &str = include_str!("memory.css");
const SCRIPT: &str = include_str!("memory.js");
/// Addresses and sizes of blocks are multiples of this, and written so.
const UNIT: u64 = 512;

/// The page.
#[must_use]
pub fn html(name: &str, about: &str, timeline: &Timeline) -> String {
    let name = escape(name);
    let mut style = String::from(":root{");
    let mut dark = String::from("@media(prefers-color-scheme:dark){:root{");
    let of_sites = palette::SITES.into_iter().enumerate().map(|(n, colours)| (format!("site{n}"), colours));
    let of_categories = Category::ALL.into_iter().map(|c| (c.name().to_owned(), palette::of_category(c)));
    for (name, (light, night)) in of_categories.chain(of_sites).chain([("others".to_owned(), palette::OTHERS)]) {
        let _ = write!(style, "--{name}:{light};");
        let _ = write!(dark, "--{name}:{night};");
    }
    let (style, dark) = (style + "}\n", dark + "}}\n");
    // Nothing in the data can end the script or begin markup.
    let data = data(timeline).to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{name}: memory</title>\n<style>\n{PAGE}{style}{dark}{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n\
         <p class=\"quiet\">{}</p>\n\
         <noscript><p>The pictures on this page are drawn by a script in it.</p></noscript>\n\
         <div id=\"legend\"></div>\n\
         <canvas id=\"chart\" role=\"img\" aria-label=\"Allocated and reserved memory over events\"></canvas>\n\
         <div id=\"controls\"><input id=\"at\" type=\"range\" min=\"0\" max=\"0\" value=\"0\" aria-label=\"Event\">\
         <button id=\"peak\" type=\"button\">peak</button><button id=\"full\" type=\"button\">most reserved</button></div>\n\
         <p id=\"now\" aria-live=\"polite\"></p>\n\
         <h2>How memory lies</h2>\n\
         <canvas id=\"map\" role=\"img\" aria-label=\"Segments with their blocks and holes\"></canvas>\n\
         <h2>The largest blocks</h2>\n<div class=\"scroll\"><table id=\"largest\"></table></div>\n</main>\n\
         <div id=\"tip\" hidden></div>\n<script>\n\"use strict\";\nconst DATA = {data};\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(about)
    )
}

/// Where a history knows no categories: the names, by number, that have a colour of their own, those first that hold most bytes at once.
fn sites(timeline: &Timeline) -> Vec<u32> {
    if timeline.moments.iter().any(|m| m.category.is_some()) {
        return Vec::new();
    }
    let (mut now, mut most) = (vec![0u64; timeline.names.len()], vec![0u64; timeline.names.len()]);
    let mut blocks: HashMap<u64, (u32, u64)> = HashMap::new();
    for moment in &timeline.moments {
        let gone = match moment.change {
            Change::Alloc => blocks.insert(moment.address, (moment.name, moment.bytes)),
            Change::Free => blocks.remove(&moment.address),
            _ => continue,
        };
        if let Some((name, bytes)) = gone {
            now[name as usize] = now[name as usize].saturating_sub(bytes);
        }
        if moment.change == Change::Alloc {
            let name = moment.name as usize;
            now[name] = now[name].saturating_add(moment.bytes);
            most[name] = most[name].max(now[name]);
        }
    }
    let mut sites: Vec<u32> = (0..).zip(&most).filter(|(_, bytes)| **bytes > 0).map(|(name, _)| name).collect();
    sites.sort_by_key(|&name| (Reverse(most[name as usize]), name));
    sites.truncate(palette::SITES.len());
    sites
}

fn data(timeline: &Timeline) -> Value {
    let moments = &timeline.moments;
    let places = || moments.iter().filter(|m| m.change != Change::Oom);
    let base = places().map(|m| m.address).min().unwrap_or(0) / UNIT * UNIT;
    let letter = |change: Change| match change {
        Change::Alloc => 'A',
        Change::Free => 'F',
        Change::Becomes => 'B',
        Change::Reserve => 'R',
        Change::Release => 'S',
        Change::Oom => 'O',
    };
    let kinds: String = moments.iter().map(|m| letter(m.change)).collect();
    let of_category = |category: Option<Category>| category.map_or('-', |c| char::from(b'0' + c as u8));
    let categories: String = moments.iter().map(|m| of_category(m.category)).collect();
    let addresses: Vec<u64> = moments.iter().map(|m| if m.change == Change::Oom { 0 } else { (m.address - base) / UNIT }).collect();
    let bytes: Vec<u64> = moments.iter().map(|m| m.bytes).collect();
    let names: Vec<u32> = moments.iter().map(|m| m.name).collect();
    json!({
        "unit": UNIT,
        "mapped": timeline.mapped,
        "kinds": kinds,
        "categories": categories,
        "addresses": addresses,
        "bytes": bytes,
        "of": names,
        "names": timeline.names,
        "phases": timeline.phases,
        "roles": Category::ALL.map(Category::name),
        "sites": sites(timeline),
        "order": palette::STACK.map(|c| c as u8),
    })
}
