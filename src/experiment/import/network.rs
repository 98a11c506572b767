//! The text of an experiment.

use std::fmt::Write as _;

use super::translate::Choices;

/// A network, as lines of the experiment language.
pub(super) struct Network {
    /// `{ tokens = … }` where it has a vocabulary, else the features of a sample.
    pub(super) input: Input,
    pub(super) layers: Vec<String>,
    pub(super) block: Vec<String>,
    pub(super) loss: &'static str,
    pub(super) missing: Vec<String>,
}

/// What one sample is.
pub(super) enum Input {
    Tokens { most: u64, vocabulary: u64 },
    Features(Vec<u64>),
}

impl Network {
    pub(super) fn write(&self, architecture: &str, dtype: &str, choices: Choices) -> String {
        let mut text = format!("description = \"{architecture}, from a config.json\"\n");
        for missing in &self.missing {
            writeln!(text, "# not expressed: {missing}").expect("text takes text");
        }
        let input = match &self.input {
            Input::Tokens { most, vocabulary } => {
                let length = choices.length.unwrap_or((*most).min(2048));
                format!("{{ tokens = {{ length = {length}, vocabulary = {vocabulary} }} }}")
            }
            Input::Features(sizes) => format!("{{ features = {sizes:?} }}"),
        };
        writeln!(text, "\n[model]\ninput = {input}\nlayers = [").expect("text takes text");
        let lines = |text: &mut String, lines: &[String]| lines.iter().for_each(|l| writeln!(text, "  {l},").expect("text takes text"));
        lines(&mut text, &self.layers);
        text.push_str("]\n\n[model.blocks]\nlayer = [\n");
        lines(&mut text, &self.block);
        let batch = choices.batch_size;
        let loss = self.loss;
        writeln!(text, "]\n\n[train]\nbatch_size = {batch}\ndtype = \"{dtype}\"\nloss = \"{loss}\"\noptimizer = \"adamw\"")
            .expect("text takes text");
        text
    }
}
