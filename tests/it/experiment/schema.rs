//! The JSON Schema says of every fixture what the reader says, as far as a schema can tell.

use std::path::Path;

use runner::experiment::schema::json;
use runner::model::layer::KINDS;
use serde_json::Value;

#[test]
fn files_without_mistakes_fit_the_schema() {
    let schema = json();
    for entry in std::fs::read_dir("tests/fixtures/plans").unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|e| e == "toml") {
            let found = problem(&schema, &schema, &read(&file), "");
            assert_eq!(found, None, "{}", file.display());
        }
    }
}

#[test]
fn mistakes_of_form_do_not_fit_the_schema() {
    let schema = json();
    let names = [
        "layer_unknown",
        "layer_form",
        "input",
        "input_sizes",
        "input_form",
        "input_two",
        "input_tokens",
        "train_values",
        "train_optimizer",
        "unknown_keys",
        "data_values",
        "data_source",
        "log_save",
        "wrong_top_level",
        "missing_fields",
        "allocator",
        "sweep_leaves",
        "sweep_unknown",
        "sweep_values",
        "allocations_form",
        "allocations_empty",
        "block_unused",
    ];
    for name in names {
        let file = Path::new("tests/fixtures/mistakes").join(name).with_extension("toml");
        assert!(problem(&schema, &schema, &read(&file), "").is_some(), "{name}");
    }
}

#[test]
fn every_layer_is_in_the_schema_with_its_description() {
    let schema = json();
    let layers = schema["definitions"]["layer"]["oneOf"].as_array().unwrap();
    for kind in KINDS {
        let form = layers.iter().find(|l| l["properties"].get(kind.name).is_some()).unwrap_or_else(|| panic!("{} is missing", kind.name));
        assert!(form["description"].as_str().is_some_and(|d| d.starts_with(kind.doc)), "{}", kind.name);
        for field in kind.fields.iter().filter(|_| kind.name != "block") {
            let described = &form["properties"][kind.name]["properties"][field.name]["description"];
            assert!(described.as_str().is_some_and(|d| d.starts_with(field.doc)), "{}.{}", kind.name, field.name);
        }
    }
}

fn read(file: &Path) -> Value {
    let table: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    serde_json::to_value(table).unwrap()
}

/// The first place where a value does not fit; the part of JSON Schema that ours uses.
fn problem(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let fits = |schema: &Value| problem(root, schema, value, at).is_none();
    for (key, rule) in schema.as_object().unwrap() {
        let number = || value.as_f64().zip(rule.as_f64());
        let length = || value.as_array().map(|a| a.len() as u64).zip(rule.as_u64());
        let ok = match key.as_str() {
            "$ref" => fits(root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap()),
            "type" => has_type(value, rule.as_str().unwrap()),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "not" => !fits(rule),
            "minimum" => number().is_none_or(|(n, least)| n >= least),
            "maximum" => number().is_none_or(|(n, most)| n <= most),
            "exclusiveMinimum" => number().is_none_or(|(n, least)| n > least),
            "exclusiveMaximum" => number().is_none_or(|(n, most)| n < most),
            "minItems" => length().is_none_or(|(n, least)| n >= least),
            "maxItems" => length().is_none_or(|(n, most)| n <= most),
            "allOf" => rule.as_array().unwrap().iter().all(fits),
            "anyOf" => rule.as_array().unwrap().iter().any(fits),
            "oneOf" => rule.as_array().unwrap().iter().filter(|s| fits(s)).count() == 1,
            "required" => value.as_object().is_none_or(|o| rule.as_array().unwrap().iter().all(|k| o.contains_key(k.as_str().unwrap()))),
            "items" => value.as_array().is_none_or(|a| a.iter().all(|v| problem(root, rule, v, at).is_none())),
            "properties" | "additionalProperties" => continue,
            "$schema" | "title" | "description" | "definitions" | "default" => true,
            other => panic!("the schema uses `{other}`, which this test does not know"),
        };
        if !ok {
            return Some(format!("{at}: {value} against {key} {rule}"));
        }
    }
    let Value::Object(entries) = value else { return None };
    entries.iter().find_map(|(key, inner)| {
        let rule = schema.get("properties").and_then(|p| p.get(key)).or(schema.get("additionalProperties"))?;
        match rule {
            Value::Bool(true) => None,
            Value::Bool(false) => Some(format!("{at}: no `{key}` here")),
            rule => problem(root, rule, inner, &format!("{at}.{key}")),
        }
    })
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("no type {other}"),
    }
}
