//! The sentence on what held a training back.

use runner::record::{MicroStep, StepTimes};
use runner::report::pace::sentence;

fn steps(times: StepTimes) -> Vec<MicroStep> {
    vec![MicroStep { step: 1, micro_step: 1, loss: None, skipped: false, seconds: 1.0, times }; 3]
}

#[test]
fn the_largest_hindrance_is_named_with_its_cure() {
    let experiment = |text: &str| text.parse::<toml::Table>().unwrap();
    let data = |prefetch: u32, workers: u32| experiment(&format!("data = {{ prefetch = {prefetch}, workers = {workers}, pinned = true }}"));
    let waits = StepTimes { waiting: 0.6, preparing: 0.6, busy: 0.4, ..StepTimes::default() };
    for (times, experiment, words) in [
        (waits, data(0, 1), "device busy 40 % of the time; held back by waiting for batches (60 %): `data.prefetch = 2`"),
        (StepTimes { preparing: 1.0, ..waits }, data(2, 1), "keeps 2.5 workers busy and there are 1: `data.workers = 3`"),
        (StepTimes { preparing: 0.1, ..waits }, data(2, 4), "`data.prefetch = 4`"),
        (StepTimes { copying: 0.3, busy: 0.7, ..StepTimes::default() }, data(2, 1), "`data.device_prefetch = true`"),
        (StepTimes { logging: 0.3, busy: 0.7, ..StepTimes::default() }, experiment("log = { every = 1 }"), "`log.every = 10`"),
        (StepTimes { saving: 0.3, busy: 0.7, ..StepTimes::default() }, experiment("save = { every = 5 }"), "`save.every = 50`"),
        (
            StepTimes { busy: 0.99, ..StepTimes::default() },
            data(2, 1),
            "device busy 99 % of the time; nothing in the pipeline holds it back",
        ),
    ] {
        let said = sentence(&steps(times), &experiment).unwrap();
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(sentence(&[], &data(1, 1)), None);
}
