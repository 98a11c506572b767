//! What pictures are drawn with: colours that stand out, and axes with few round ticks.

use runner::record::Category;
use runner::report::plot::palette::{OTHERS, SITES, of_category, style};
use runner::report::plot::scale::{ByteAxis, NumberAxis, number, tick};

fn luminance(colour: &str) -> f64 {
    let channel = |i: usize| {
        let c = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// The rules of a style sheet that give a colour: selector, property, colour.
fn colours(sheet: &str) -> Vec<(&str, &str, &str)> {
    sheet
        .lines()
        .filter_map(|line| {
            let (selector, rest) = line.split_once('{')?;
            let (property, colour) = rest.strip_suffix('}')?.split_once(':')?;
            (colour.starts_with('#') && colour.len() == 7).then_some((selector, property, colour))
        })
        .collect()
}

#[test]
fn everything_stands_out_from_the_ground() {
    let sheet = style();
    let (light, dark) = sheet.split_once("@media (prefers-color-scheme:dark){").unwrap();
    let (light, dark) = (colours(light), colours(dark));
    let names = |rules: &[(&str, &str, &str)]| rules.iter().map(|(s, p, _)| format!("{s} {p}")).collect::<Vec<_>>();
    assert_eq!(names(&light), names(&dark));
    assert!(light.len() > 30);
    for rules in [light, dark] {
        let ground = rules.iter().find(|(selector, ..)| *selector == ".ground").unwrap().2;
        for (selector, property, colour) in rules {
            let least = match selector {
                ".ground" | ".grid" | ".between" | ".axis" => 1.0,
                ".f-limit" if property == "stroke" => 1.0, // the ground round the letters
                "text" | ".faint" | ".f-limit" | ".t-peak" => 4.5,
                _ => 3.0,
            };
            assert!(contrast(colour, ground) >= least, "{selector} on {ground}: {:.2}", contrast(colour, ground));
        }
    }
}

#[test]
fn call_sites_have_colours_that_no_role_has() {
    let roles: Vec<_> = Category::ALL.map(of_category).into();
    for (n, colours) in SITES.iter().chain([&OTHERS]).enumerate() {
        assert!(roles.iter().all(|role| role.0 != colours.0 && role.1 != colours.1), "{colours:?}");
        assert!(!SITES[..n.min(SITES.len())].iter().any(|other| other.0 == colours.0 || other.1 == colours.1), "{colours:?}");
        assert!(contrast(colours.0, "#ffffff") >= 3.0 && contrast(colours.1, "#11151b") >= 3.0, "{colours:?}");
    }
}

#[test]
fn byte_ticks_are_round_and_few() {
    for max in [0, 1, 5, 511, 512, 1000, 159_383_552, 3 << 30, u64::MAX >> 2] {
        let axis = ByteAxis::to(max);
        let steps = axis.top / axis.step;
        assert!(axis.step.is_power_of_two() && axis.top >= max && steps <= 6, "{max}: {axis:?}");
        assert!(max < 16 || steps >= 4, "{max}: {axis:?}");
    }
    assert_eq!(ByteAxis::to(159_383_552).ticks().map(tick).collect::<Vec<_>>(), ["0", "32 MiB", "64 MiB", "96 MiB", "128 MiB", "160 MiB"]);
    assert_eq!([512, 1536, 1 << 30, 3 << 29, 5 << 28].map(tick), ["512 B", "1.5 KiB", "1 GiB", "1.5 GiB", "1.25 GiB"]);
}

#[test]
fn number_ticks_keep_their_distance() {
    let doubling = NumberAxis::of((0..=12).map(|i| f64::from(1 << i)));
    assert!((doubling.place(64.0) - 0.5).abs() < 1e-12);
    assert_eq!(doubling.ticks(0.05).len(), 13);
    assert_eq!(doubling.ticks(0.15), [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0]);
    let even = NumberAxis::of((1..=1000).map(f64::from));
    assert_eq!(even.ticks(0.15), [200.0, 400.0, 600.0, 800.0, 1000.0]);
    assert_eq!(NumberAxis::of([7.0]).ticks(0.1), [7.0]);
    assert_eq!([0.001, 16384.0, 0.5, 1e-5, 10.0, 0.0].map(number), ["0.001", "16384", "0.5", "1e-5", "10", "0"]);
}
