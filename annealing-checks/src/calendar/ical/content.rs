//! Content lines (RFC 5545, 3.1): unfolded, and split into name, parameters and value.

/// One property of a component, as it is written in one content line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    /// The number of its first line, from 1.
    pub(super) line: usize,
    /// The name in upper case.
    pub(super) name: String,
    /// The names of the parameters in upper case, each once, with their values.
    params: Vec<(String, String)>,
    /// The value as it is written.
    pub(super) value: String,
}

impl Property {
    /// The value of a parameter, whose name is in upper case.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Parses an unfolded line.
    ///
    /// # Errors
    /// Why it is no property.
    pub(super) fn parse(line: usize, text: &str) -> Result<Self, String> {
        if let Some(control) = text.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(format!("has the control character {control:?}"));
        }
        let end = text.find([':', ';']).ok_or("has no `:`")?;
        let (name, mut rest) = text.split_at(end);
        let mut params: Vec<(String, String)> = Vec::new();
        while let Some(after) = rest.strip_prefix(';') {
            let (name, value, left) = parameter(after)?;
            if params.iter().any(|(known, _)| *known == name) {
                return Err(format!("has the parameter {name} twice"));
            }
            params.push((name, value));
            rest = left;
        }
        let value = rest.strip_prefix(':').ok_or("has no `:`")?;
        Ok(Self {
            line,
            name: upper(name)?,
            params,
            value: value.to_owned(),
        })
    }
}

/// A name in upper case.
fn upper(name: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match !name.is_empty() && name.bytes().all(is_name) {
        true => Ok(name.to_ascii_uppercase()),
        false => Err(format!("has `{name}` for a name")),
    }
}

/// Splits the first parameter off a text: its name, its values without quotes, and the rest of the text.
fn parameter(text: &str) -> Result<(String, String, &str), String> {
    let (name, mut rest) = text.split_once('=').ok_or("has a parameter without `=`")?;
    let name = upper(name)?;
    let mut value = String::new();
    loop {
        let (one, left) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("has a quote without an end")?,
            None => {
                let end = rest.find([',', ';', ':', '"']);
                rest.split_at(end.unwrap_or(rest.len()))
            }
        };
        value += one;
        match left.strip_prefix(',') {
            Some(next) => {
                value.push(',');
                rest = next;
            }
            None if left.starts_with([';', ':']) => return Ok((name, value, left)),
            None => return Err(format!("has a wrong value of the parameter {name}")),
        }
    }
}

/// The lines of a text without folds, each with the number of its first line. Blank lines are left out.
pub(super) fn unfolded(text: &str) -> Vec<(usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        let line = line.trim_end_matches('\r');
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(more), Some((_, before))) => *before += more,
            _ if line.is_empty() => {}
            _ => lines.push((number, line.to_owned())),
        }
    }
    lines
}
