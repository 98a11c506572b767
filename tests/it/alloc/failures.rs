//! Running out of memory, explained.

use crate::support::{Sandbox, repository};

/// PyTorch under this limit failed as the first test says, with these figures.
const TIGHT: &str = r#"
[allocator]
memory_limit = 92274688

[model]
input = { features = [512] }
layers = [{ linear = { out_features = 1024 } }, "relu", { linear = { out_features = 1024 } }, "relu", { linear = { out_features = 10 } }]

[train]
batch_size = 256
steps = 3
loss = "cross_entropy"
optimizer = { adam = { lr = 0.001 } }
"#;

#[test]
fn a_run_that_fails_says_who_asked_what_was_free_and_what_would_fit() {
    let s = Sandbox::new();
    s.write("tight.toml", TIGHT);
    s.run(&["tight.toml", "--device", "virtual", "-q"]).exits(1).complains(&[
        "tight: out of memory in step 1, micro-step 1, backward\n",
        "CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which ",
        "88.00 MiB allowed; Of the allocated memory 42.57 MiB is allocated by PyTorch, and 15.43 MiB is reserved by PyTorch but unallocated.",
        "asked     32.00 MiB for workspace, linear backward of layer 4.linear (workspace); a segment of 32.00 MiB could not be had",
        "free      15.43 MiB reserved and free in 6 blocks, the largest 14.00 MiB; 15.43 MiB of it is lost to fragmentation",
        "held      42.57 MiB: workspace 33.00 MiB, parameters 6.05 MiB, activations ",
        "largest     32.00 MiB  workspace, linear of layer 0.linear (workspace)",
        " 4.00 MiB  2.weight (parameters)",
        "fits with ",
    ]);
}

#[test]
fn state_of_optimizers_is_told_by_pytorchs_names() {
    let s = Sandbox::new();
    for (optimizer, names) in [
        ("\"adam\"", &["exp_avg of 1.weight", "exp_avg_sq of 1.weight"][..]),
        ("{ adam = { amsgrad = true, implementation = \"fused\" } }", &["exp_avg_sq of 1.weight", "max_exp_avg_sq of 1.weight"]),
        ("{ sgd = { momentum = 0.9 } }", &["momentum_buffer of 1.weight"]),
        ("\"rmsprop\"", &["square_avg of 1.weight"]),
        ("\"adagrad\"", &["sum of 1.weight"]),
    ] {
        let text = format!(
            "
[model]
input = {{ tokens = {{ length = 1, vocabulary = 4 }} }}
layers = [{{ embedding = {{ num_embeddings = 4, embedding_dim = 4096 }} }}, {{ linear = {{ out_features = 4096 }} }}]

[train]
batch_size = 4
lengths = [1, 60000]
optimizer = {optimizer}

[allocator]
memory_limit = \"2GiB\"
"
        );
        // The state is there once a step is done, and the second is too long.
        s.write("state.toml", &text);
        let told = s.run(&["state.toml", "--device", "virtual", "-q"]).exits(1).stderr;
        assert!(names.iter().all(|name| told.contains(&format!("{name} (optimizer_state)"))), "{told}");
    }
}

#[test]
fn where_nothing_is_held_nothing_is_listed() {
    let s = Sandbox::new();
    s.write("tight.toml", &TIGHT.replace("92274688", "1024"));
    let told = s.run(&["tight.toml", "--device", "virtual", "-q"]).exits(1).complains(&["  held      nothing\n"]).stderr;
    assert!(!told.contains("0 B: "), "{told}");
}

#[test]
fn switches_that_would_make_it_fit_are_named_cheapest_first() {
    let s = Sandbox::new();
    let wide = TIGHT.replace("92274688", "120000000").replace("batch_size = 256", "batch_size = 2048");
    s.write("wide.toml", &wide);
    let told = s.run(&["wide.toml", "--device", "virtual", "-q"]).exits(1).stderr;
    let fits = told.split("fits with ").nth(1).unwrap_or_else(|| panic!("{told}"));
    assert!(fits.contains(": peak ") && fits.contains(", reserved "), "{told}");
    // Cut into eight, the same batch fits.
    s.run(&["wide.toml", "--device", "virtual", "-q", "--set", "train.batch_size=256", "--set", "train.accumulation_steps=8"]).exits(0);
}

/// The message that PyTorch printed on an H200 for this experiment, and ours: the same words, and the same figures but for those that
/// other memory of the device has a part in.
#[test]
fn the_message_is_pytorchs_word_for_word() {
    let case = repository().join("tests/fixtures/cases/h200/oom_train");
    let message = std::fs::read_to_string(case.join("oom.txt")).unwrap();
    let theirs = message.trim_end().strip_prefix("OutOfMemoryError: ").unwrap();
    let s = Sandbox::new();
    let told = s.run(&[case.join("experiment.toml").to_str().unwrap(), "--device", "virtual", "-q"]).exits(1).stderr;
    let ours = told.lines().map(str::trim).find(|line| line.starts_with("CUDA out of memory")).unwrap_or_else(|| panic!("{told}"));
    for part in ["of which ", "this process has "] {
        assert_eq!(theirs.matches(part).count(), 1);
        assert_eq!(ours.matches(part).count(), 1);
    }
    assert_eq!(of_the_process(ours), of_the_process(theirs));
}

/// The message without the device's free memory and all that the process has in use.
fn of_the_process(message: &str) -> Vec<&str> {
    let (head, rest) = message.split_once("of which ").unwrap();
    let (_, rest) = rest.split_once(" is free").unwrap();
    let (middle, rest) = rest.split_once("this process has ").unwrap();
    let (_, tail) = rest.split_once(" memory in use").unwrap();
    vec![head, middle, tail]
}
