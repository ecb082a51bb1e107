//! What differs between two states.

use serde::Serialize;
use serde_json::{Map, Value};

/// A field that differs between two states.
///
/// # Examples
///
/// ```
/// use recount_projections::FieldChange;
/// use serde_json::json;
///
/// let before = json!({"status": "pending", "retry": {"attempts": 0, "parked": false}});
/// let after = json!({"status": "pending", "retry": {"attempts": 1, "parked": false}});
/// let changes = FieldChange::between(&before, &after);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].field, "retry.attempts");
/// assert_eq!((&changes[0].before, &changes[0].after), (&json!(0), &json!(1)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// The field's name; one within another has both names, with a dot between them.
    pub field: String,
    /// What was there; null where nothing was.
    pub before: Value,
    /// What is there now; null where nothing is.
    pub after: Value,
}

impl FieldChange {
    /// The fields that differ, in the order of their names. Objects are looked into where both
    /// states have one; everything else is compared as a whole.
    pub fn between(before: &Value, after: &Value) -> Vec<Self> {
        let mut changes = Vec::new();
        compare("", before, after, &mut changes);
        changes
    }
}

fn compare(field: &str, before: &Value, after: &Value, changes: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        let (field, before, after) = (field.to_owned(), before.clone(), after.clone());
        changes.push(FieldChange { field, before, after });
        return;
    };
    let get =
        |fields: &Map<String, Value>, name: &str| fields.get(name).cloned().unwrap_or_default();
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let path = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
        compare(&path, &get(old, name), &get(new, name), changes);
    }
}
