//! Query strings without absent parameters.

/// The pairs of a query string.
#[derive(Default)]
pub(crate) struct Pairs(pub(crate) Vec<(&'static str, String)>);

impl Pairs {
    pub(crate) fn add(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.0.push((name, value.to_string()));
        }
        self
    }

    pub(crate) fn add_all(mut self, name: &'static str, values: &[String]) -> Self {
        self.0.extend(values.iter().map(|value| (name, value.clone())));
        self
    }

    pub(crate) fn add_flag(mut self, name: &'static str, flag: bool) -> Self {
        if flag {
            self.0.push((name, "true".to_owned()));
        }
        self
    }
}
