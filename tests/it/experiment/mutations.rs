//! Thousands of damaged files: each gives mistakes or a plan, quickly, and never a panic.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::Config;
use runner::experiment::load_str;

/// Pieces that files are damaged with: what people mistype, and what numbers break on.
const PIECES: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "2",
    "1e9",
    "9223372036854775807",
    "9223372036854775808",
    "4611686018427387904",
    "4294967296",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"relu\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\n",
    "#",
    "\"",
    "'",
    "[model]",
    "[train]",
    "[sweep]",
    "[model.blocks]",
    "[[",
    "]]",
    "{ block = \"b\" }",
    "layers",
    "{ repeat = { times = 1000000, layers = [\"relu\"] } }",
    "{ residual = { layers = [] } }",
    "{ repeat = { times = 9223372036854775807, layers = [] } }",
    "{ from = 1, to = 9223372036854775807, by = 1 }",
    "ü",
    "\u{0}",
    "inplace = true",
    "no_grad = true",
    "amp = \"f16\"",
    "features",
    "tokens",
    "flatten",
    "{ checkpoint = { layers = [\"relu\"] } }",
    "conv2d",
    "1979-05-27",
];

const FILES: &[&str] = &[
    include_str!("../../fixtures/plans/everything.toml"),
    include_str!("../../fixtures/plans/autocast.toml"),
    include_str!("../../fixtures/mistakes/block_deep.toml"),
    include_str!("../../fixtures/mistakes/shapes_groups.toml"),
    include_str!("../../fixtures/mistakes/shapes_tokens.toml"),
    include_str!("../../fixtures/mistakes/sweep_refused.toml"),
    include_str!("../../fixtures/mistakes/allocations_names.toml"),
];

#[derive(Debug, Clone)]
enum Damage {
    /// Puts a piece at a place, over some characters.
    Put(usize, usize, usize),
    /// Copies a stretch to another place.
    Copy(usize, usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), 0..8usize, 0..PIECES.len()).prop_map(|(at, over, piece)| Damage::Put(at, over, piece)),
        (any::<usize>(), any::<usize>(), 1..60usize).prop_map(|(from, to, length)| Damage::Copy(from, to, length)),
    ]
}

fn apply(text: &str, damage: &Damage) -> String {
    let letters: Vec<char> = text.chars().collect();
    let n = letters.len() + 1;
    let stretch = |from: usize, to: usize| letters[from.min(letters.len())..to.min(letters.len())].iter().collect::<String>();
    match *damage {
        Damage::Put(at, over, piece) => format!("{}{}{}", stretch(0, at % n), PIECES[piece], stretch(at % n + over, usize::MAX)),
        Damage::Copy(from, to, length) => {
            format!("{}{}{}", stretch(0, to % n), stretch(from % n, from % n + length), stretch(to % n, usize::MAX))
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 3000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn damaged_files_give_mistakes_or_plans(file in 0..FILES.len(), damages in prop::collection::vec(damage(), 1..4)) {
        let text = damages.iter().fold(FILES[file].to_owned(), |text, d| apply(&text, d));
        let started = Instant::now();
        if let Err(mistakes) = load_str("damaged", &text, &[]) {
            prop_assert!(!mistakes.is_empty());
            prop_assert!(mistakes.render(false).contains("error: "));
        }
        prop_assert!(started.elapsed() < Duration::from_secs(20), "slow: {text}");
    }

    #[test]
    fn any_override_gives_mistakes_or_plans(argument in "(train|model|allocator|x)?[.]?[a-z_.]{0,12}=?[-\\[\\]{}\",.:0-9a-z ]{0,20}") {
        if let Err(mistakes) = load_str("overridden", FILES[0], &[argument]) {
            prop_assert!(mistakes.render(false).contains("error: "));
        }
    }
}
