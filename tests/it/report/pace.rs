//! The last word of a measured run: how busy the device was, and the one thing that holds it back.

use runner::record::{Load, MicroStep, StepTimes};
use runner::report::pace::sentence;

fn steps(times: StepTimes, load: Load) -> Vec<MicroStep> {
    vec![MicroStep { step: 1, micro_step: 1, loss: None, skipped: false, seconds: 1.0, times, load }; 3]
}

fn experiment(text: &str) -> toml::Table {
    text.parse().unwrap()
}

fn data(prefetch: u32, workers: u32) -> toml::Table {
    experiment(&format!("data = {{ prefetch = {prefetch}, workers = {workers}, pinned = true }}"))
}

#[test]
fn the_largest_hindrance_is_named_with_its_cure() {
    let waits = StepTimes { waiting: 0.6, preparing: 0.6, computing: Some((0.0, 0.4)), ..StepTimes::default() };
    for (times, experiment, words) in [
        (waits, data(0, 1), "device busy 40 % of the time; held back by waiting for batches (60 %): `data.prefetch = 2`"),
        (StepTimes { preparing: 1.0, ..waits }, data(2, 1), "keeps 2.5 workers busy and there are 1: `data.workers = 3`"),
        (StepTimes { preparing: 0.1, ..waits }, data(2, 4), "`data.prefetch = 4`"),
        (StepTimes { copying: 0.3, computing: Some((0.0, 0.7)), ..StepTimes::default() }, data(2, 1), "`data.device_prefetch = true`"),
        (
            StepTimes { logging: 0.3, computing: Some((0.0, 0.7)), ..StepTimes::default() },
            experiment("log = { every = 1 }"),
            "`log.every = 10`",
        ),
        (
            StepTimes { saving: 0.3, computing: Some((0.0, 0.7)), ..StepTimes::default() },
            experiment("save = { every = 5 }"),
            "`save.every = 50`",
        ),
        (
            StepTimes { computing: Some((0.0, 0.99)), ..StepTimes::default() },
            data(2, 1),
            "device busy 99 % of the time; nothing in the pipeline holds it back",
        ),
        // A loop that waits while its device computes is not held back by that.
        (
            StepTimes { logging: 0.9, computing: Some((0.0, 0.99)), ..StepTimes::default() },
            data(2, 1),
            "nothing in the pipeline holds it back",
        ),
    ] {
        let said = sentence(&steps(times, Load::default()), &experiment, "host").unwrap();
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(sentence(&[], &data(1, 1), "host"), None);
}

#[test]
fn what_was_sampled_is_said_where_somebody_told() {
    let busy = StepTimes { computing: Some((0.0, 0.5)), ..StepTimes::default() };
    let load = Load { utilisation: Some(0.31), memory: Some(5 << 30), power: Some(203.7), cpu: Some(1.5) };
    for (load, device, words) in [
        (load, "cuda", "device busy 50 % of the time (NVML: 31 % utilisation, 5.00 GiB, 204 W; process: 150 % of a core);"),
        (Load { power: None, cpu: None, ..load }, "cuda", "(NVML: 31 % utilisation, 5.00 GiB);"),
        (Load { utilisation: None, memory: None, power: None, cpu: None }, "cuda", "(NVML tells nothing here);"),
        (Load { utilisation: None, power: None, ..load }, "host", "of the time (process: 150 % of a core);"),
        (Load::default(), "host", "device busy 50 % of the time;"),
    ] {
        let said = sentence(&steps(busy, load), &data(2, 1), device).unwrap();
        assert!(said.contains(words), "{said}");
    }
}
