//! Conditions on the labels of nodes, as jobs have them.

use serde::{Deserialize, Serialize};

use crate::selector::{Requirement, Test};

/// A condition on a node's labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Constraint {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

// === impl Constraint ===

impl From<Requirement> for Constraint {
    fn from(Requirement { key, test }: Requirement) -> Self {
        let (operator, values) = match test {
            Test::Exists => ("exists", Vec::new()),
            Test::Absent => ("!", Vec::new()),
            Test::In(values) => ("in", values),
            Test::NotIn(values) => ("notin", values),
            Test::Greater(bound) => ("gt", vec![bound.to_string()]),
            Test::Less(bound) => ("lt", vec![bound.to_string()]),
        };
        Self { key, operator: operator.to_owned(), values }
    }
}

/// The operators of a constraint.
pub const OPERATORS: &[&str] = &["in", "notin", "exists", "!", "=", "==", "!=", "gt", "lt"];

impl Constraint {
    /// The requirement on a node's labels.
    ///
    /// # Errors
    /// The reason why the constraint is invalid, for the user.
    pub fn requirement(&self) -> Result<Requirement, String> {
        let values = &self.values;
        let one = || match values.as_slice() {
            [value] => Ok(value.clone()),
            _ => Err(format!(
                "operator '{}' takes exactly one value, got {}",
                self.operator,
                values.len()
            )),
        };
        let some = || match values.len() {
            0 => Err(format!("operator '{}' takes at least one value", self.operator)),
            _ => Ok(values.clone()),
        };
        let integer = || {
            let text = one()?;
            text.parse::<i64>()
                .map_err(|_| format!("operator '{}' takes an integer, got '{text}'", self.operator))
        };
        let test = match self.operator.to_ascii_lowercase().as_str() {
            "in" => Test::In(some()?),
            "notin" => Test::NotIn(some()?),
            "=" | "==" => Test::In(vec![one()?]),
            "!=" => Test::NotIn(vec![one()?]),
            "gt" => Test::Greater(integer()?),
            "lt" => Test::Less(integer()?),
            "exists" | "!" if !values.is_empty() => {
                return Err(format!("operator '{}' takes no values", self.operator));
            }
            "exists" => Test::Exists,
            "!" => Test::Absent,
            other => {
                return Err(format!(
                    "'{other}' is not an operator; known: {}",
                    OPERATORS.join(", ")
                ));
            }
        };
        Ok(Requirement { key: self.key.clone(), test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(operator: &str, values: &[&str]) -> Constraint {
        Constraint {
            key: "zone".to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    #[test]
    fn a_constraint_becomes_a_requirement_on_labels() {
        assert_eq!(
            constraint("in", &["a", "b"]).requirement().unwrap().to_string(),
            "zone in (a,b)"
        );
        assert_eq!(constraint("!", &[]).requirement().unwrap().to_string(), "!zone");
        assert_eq!(constraint("gt", &["3"]).requirement().unwrap().to_string(), "zone>3");
    }

    #[test]
    fn a_constraint_with_the_wrong_values_says_what_its_operator_takes() {
        for (operator, values, reason) in [
            ("in", &[][..], "operator 'in' takes at least one value"),
            ("=", &["a", "b"], "operator '=' takes exactly one value, got 2"),
            ("exists", &["a"], "operator 'exists' takes no values"),
            ("lt", &["a"], "operator 'lt' takes an integer, got 'a'"),
            (
                "like",
                &["a"],
                "'like' is not an operator; known: in, notin, exists, !, =, ==, !=, gt, lt",
            ),
        ] {
            assert_eq!(constraint(operator, values).requirement().unwrap_err(), reason);
        }
    }
}
