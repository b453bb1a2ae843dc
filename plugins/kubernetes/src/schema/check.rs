//! Compares values with a schema.

use plugin_sdk::FieldPath;
use serde_json::{Map, Value};

use super::{Additional, Bounds, Limit, Schema, Type, read::Misfit};

/// The fields that every object has, whether or not its schema names them.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Everything in a custom resource that does not fit its schema. The server itself checks `metadata`.
    pub(crate) fn misfits(&self, resource: &Value) -> Vec<Misfit> {
        let mut found = Found {
            strict: true,
            misfits: Vec::new(),
        };
        self.check(resource, &FieldPath::default(), true, &mut found);
        found.misfits
    }

    fn check(&self, value: &Value, path: &FieldPath, is_object: bool, found: &mut Found) {
        if value.is_null() {
            if !self.nullable && found.strict && (self.of.is_some() || self.int_or_string) {
                found.add(
                    path,
                    "must not be null; remove the field or give it a value",
                );
            }
            return;
        }
        if !self.is_of_type(value) {
            let expected = if self.int_or_string {
                "an integer or a string"
            } else {
                self.of.map_or("", Type::name)
            };
            found.add(path, &format!("must be {expected}, is {}", shown(value)));
            return;
        }
        if let Some(values) = self
            .values
            .as_ref()
            .filter(|values| !values.contains(value))
        {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            found.add(
                path,
                &format!("must be one of {}, is {}", values.join(", "), shown(value)),
            );
        }
        match value {
            Value::String(text) => self.check_text(text, path, found),
            Value::Number(number) => {
                self.check_number(number.as_f64().unwrap_or_default(), path, found)
            }
            Value::Array(items) => self.check_items(items, path, found),
            Value::Object(fields) => {
                self.check_fields(fields, path, is_object || self.embedded, found)
            }
            _ => {}
        }
        self.check_parts(value, path, is_object, found);
    }

    fn is_of_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || is_integer(value);
        }
        match self.of {
            None => true,
            Some(Type::Object) => value.is_object(),
            Some(Type::Array) => value.is_array(),
            Some(Type::Text) => value.is_string(),
            Some(Type::Integer) => is_integer(value),
            Some(Type::Number) => value.is_number(),
            Some(Type::Boolean) => value.is_boolean(),
        }
    }

    fn check_text(&self, text: &str, path: &FieldPath, found: &mut Found) {
        self.lengths[0].check(text.chars().count(), "characters", path, found);
        if let Some(pattern) = self
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.is_match(text))
        {
            found.add(path, &format!("must match the pattern `{pattern}`"));
        }
    }

    fn check_number(&self, number: f64, path: &FieldPath, found: &mut Found) {
        let beyond =
            |limit: &Limit, beyond: bool| beyond || limit.is_exclusive && number == limit.bound;
        if let Some(limit) = self
            .minimum
            .as_ref()
            .filter(|limit| beyond(limit, number < limit.bound))
        {
            let than = if limit.is_exclusive {
                "greater than"
            } else {
                "at least"
            };
            found.add(
                path,
                &format!("must be {than} {}, is {number}", limit.bound),
            );
        }
        if let Some(limit) = self
            .maximum
            .as_ref()
            .filter(|limit| beyond(limit, number > limit.bound))
        {
            let than = if limit.is_exclusive {
                "less than"
            } else {
                "at most"
            };
            found.add(
                path,
                &format!("must be {than} {}, is {number}", limit.bound),
            );
        }
        if let Some(of) = self
            .multiple_of
            .filter(|of| *of > 0.0 && (number / of).fract() != 0.0)
        {
            found.add(path, &format!("must be a multiple of {of}, is {number}"));
        }
    }

    fn check_items(&self, items: &[Value], path: &FieldPath, found: &mut Found) {
        self.lengths[1].check(items.len(), "items", path, found);
        if let Some(of) = &self.items {
            for (at, item) in items.iter().enumerate() {
                of.check(item, &path.clone().index(at), false, found);
            }
        }
    }

    fn check_fields(
        &self,
        fields: &Map<String, Value>,
        path: &FieldPath,
        is_object: bool,
        found: &mut Found,
    ) {
        self.lengths[2].check(fields.len(), "fields", path, found);
        for name in &self.required {
            let is_filled_in = self
                .properties
                .get(name)
                .is_some_and(|schema| schema.has_default);
            if !fields.contains_key(name) && !is_filled_in {
                found.add(path, &format!("needs the field `{name}`; add it"));
            }
        }
        for (name, value) in fields {
            if is_object && META.contains(&name.as_str()) {
                continue;
            }
            let path = path.clone().key(name.as_str());
            match (self.properties.get(name), &self.additional) {
                (Some(schema), _) if value.is_null() && schema.has_default && !schema.nullable => {}
                (Some(schema), _) => schema.check(value, &path, false, found),
                (None, Additional::Of(schema)) => schema.check(value, &path, false, found),
                (None, Additional::Any) => {}
                (None, Additional::Refused) if self.preserve || !found.strict => {}
                (None, Additional::Refused) => found.add(
                    &path,
                    "is not a field of this kind; correct its name or remove it",
                ),
            }
        }
    }

    /// Checks `allOf`, `anyOf`, `oneOf` and `not`. They do not say which fields there are.
    fn check_parts(&self, value: &Value, path: &FieldPath, is_object: bool, found: &mut Found) {
        let misfits = |schema: &Self| {
            let mut found = Found {
                strict: false,
                misfits: Vec::new(),
            };
            schema.check(value, path, is_object, &mut found);
            found.misfits
        };
        let fits = |schemas: &[Self]| {
            schemas
                .iter()
                .filter(|schema| misfits(schema).is_empty())
                .count()
        };
        found.misfits.extend(self.all_of.iter().flat_map(misfits));
        if !self.any_of.is_empty() && fits(&self.any_of) == 0 {
            found.add(path, "must fit at least one of the schemas in anyOf");
        }
        if !self.one_of.is_empty() && fits(&self.one_of) != 1 {
            found.add(path, "must fit exactly one of the schemas in oneOf");
        }
        if self.not.as_ref().is_some_and(|not| misfits(not).is_empty()) {
            found.add(path, "must not fit the schema in not");
        }
    }
}

/// The misfits found so far.
struct Found {
    /// Whether unknown fields are misfits.
    strict: bool,
    misfits: Vec<Misfit>,
}

impl Found {
    fn add(&mut self, path: &FieldPath, message: &str) {
        self.misfits.push(Misfit {
            path: path.clone(),
            message: message.into(),
        });
    }
}

impl Bounds {
    fn check(&self, count: usize, of: &str, path: &FieldPath, found: &mut Found) {
        let count = count as u64;
        if let Some(least) = self.least.filter(|least| count < *least) {
            found.add(
                path,
                &format!("must have at least {least} {of}, has {count}"),
            );
        }
        if let Some(most) = self.most.filter(|most| count > *most) {
            found.add(path, &format!("must have at most {most} {of}, has {count}"));
        }
    }
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "a list",
            Self::Text => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
        }
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// A value for a message: scalars as JSON, shortened.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        scalar => scalar.to_string().chars().take(60).collect(),
    }
}
