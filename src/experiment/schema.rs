//! The language as a [JSON Schema](https://json-schema.org/draft-07), for editors: completion, descriptions, mistakes while typing.
//! It is made of the tables that files are read by, and says nothing of shapes or of what PyTorch refuses.

use serde_json::{Map, Value, json};

use super::sweep::swept;
use super::tables::{EXPERIMENT, RANGE};
use crate::model::field::{Field, Interval, Kind, Literal, Presence, Variant};
use crate::model::layer::{BLOCK, KINDS, LayerKind};

/// The whole schema.
#[must_use]
pub fn json() -> Value {
    let mut schema = table(EXPERIMENT);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("runner experiment");
    schema["description"] = json!("A training experiment, or a script of allocations, whose GPU memory is measured and predicted.");
    schema["definitions"] = json!({
        "layer": { "oneOf": KINDS.iter().copied().flat_map(layer).collect::<Vec<_>>() },
        "layers": { "type": "array", "items": { "$ref": "#/definitions/layer" } },
    });
    let properties = &mut schema["properties"];
    properties["sweep"] = sweep();
    schema
}

fn table(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|f| (f.name.to_owned(), field(f))).collect();
    let required: Vec<&str> = fields.iter().filter(|f| matches!(f.presence, Presence::Required)).map(|f| f.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn field(field: &Field) -> Value {
    let mut schema = kind(&field.kind);
    let mut doc = field.doc.to_owned();
    match field.presence {
        Presence::Required => {}
        Presence::Optional(absent) => doc += &format!(" Absent: {absent}."),
        Presence::Default(literal) => schema["default"] = self::literal(literal),
    }
    schema["description"] = json!(doc);
    // In draft 7 nothing beside a `$ref` counts.
    match schema.as_object_mut().and_then(|s| s.remove("$ref")) {
        Some(reference) => {
            schema["allOf"] = json!([{ "$ref": reference }]);
            schema
        }
        None => schema,
    }
}

fn literal(literal: Literal) -> Value {
    match literal {
        Literal::Integer(n) => json!(n),
        Literal::Number(x) => json!(x),
        Literal::Bool(b) => json!(b),
        Literal::Text(t) => json!(t),
        Literal::Empty => json!([]),
    }
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Number(interval) => number(interval),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Text | Kind::Block => json!({ "type": "string" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::List { of, least, most: usize::MAX } => json!({ "type": "array", "items": self::kind(of), "minItems": least }),
        Kind::List { of, least, most } => json!({ "type": "array", "items": self::kind(of), "minItems": least, "maxItems": most }),
        Kind::Table(fields) => table(fields),
        Kind::Tagged(variants) => json!({ "oneOf": variants.iter().flat_map(variant).collect::<Vec<_>>() }),
        Kind::OneOf(kinds) => json!({ "anyOf": kinds.iter().map(self::kind).collect::<Vec<_>>() }),
        Kind::Layers => json!({ "$ref": "#/definitions/layers" }),
        Kind::Blocks => json!({ "type": "object", "additionalProperties": { "$ref": "#/definitions/layers" } }),
    }
}

fn number(interval: &Interval) -> Value {
    let mut schema = json!({ "type": "number" });
    if interval.from.is_finite() {
        schema[if interval.from_included { "minimum" } else { "exclusiveMinimum" }] = json!(interval.from);
    }
    if interval.to.is_finite() {
        schema[if interval.to_included { "maximum" } else { "exclusiveMaximum" }] = json!(interval.to);
    }
    schema
}

fn layer(layer: &LayerKind) -> Vec<Value> {
    let body = if layer.name == BLOCK { kind(&Kind::Block) } else { table(layer.fields) };
    tagged(layer.name, layer.doc, body, layer.needs_no_field())
}

fn variant(variant: &Variant) -> Vec<Value> {
    let bare = variant.fields().is_some_and(|fields| !fields.iter().any(|f| matches!(f.presence, Presence::Required)));
    tagged(variant.name, variant.doc, kind(&variant.body), bare)
}

/// `{ name = body }` and, where the name alone will do, `"name"`.
fn tagged(name: &str, doc: &str, mut body: Value, bare: bool) -> Vec<Value> {
    body["description"] = json!(doc);
    let mut properties = Map::new();
    properties.insert(name.to_owned(), body);
    let whole =
        json!({ "type": "object", "description": doc, "properties": properties, "required": [name], "additionalProperties": false });
    let name = bare.then(|| json!({ "const": name, "description": doc }));
    name.into_iter().chain([whole]).collect()
}

/// The swept tables again, with values for each leaf.
fn sweep() -> Value {
    let swept = EXPERIMENT.iter().filter(|f| swept(f.name).is_some());
    let properties: Map<String, Value> = swept.map(|f| (f.name.to_owned(), axes(f))).collect();
    let doc = EXPERIMENT.iter().find(|f| f.name == "sweep").map_or("", |f| f.doc);
    json!({ "type": "object", "description": doc, "properties": properties, "additionalProperties": false })
}

/// An axis over a field, or axes over the fields within it.
fn axes(field: &Field) -> Value {
    let mut forms = vec![json!({ "type": "array", "items": kind(&field.kind), "minItems": 1 })];
    let inner = match field.kind {
        Kind::Table(fields) => Some(fields.iter().map(|f| (f.name.to_owned(), axes(f))).collect()),
        Kind::Tagged(variants) => Some(variants.iter().map(|v| (v.name.to_owned(), within(v))).collect::<Map<_, _>>()),
        Kind::Integer { .. } => {
            forms.push(table(RANGE));
            None
        }
        _ => None,
    };
    forms.extend(inner.map(|properties| json!({ "type": "object", "properties": properties, "additionalProperties": false })));
    json!({ "description": field.doc, "anyOf": forms })
}

fn within(variant: &Variant) -> Value {
    match variant.fields() {
        Some(fields) => {
            let properties: Map<String, Value> = fields.iter().map(|f| (f.name.to_owned(), axes(f))).collect();
            json!({ "type": "object", "properties": properties, "additionalProperties": false })
        }
        None => json!({ "type": "array", "items": kind(&variant.body), "minItems": 1 }),
    }
}
