//! `tojson` as chat templates know it: Python's `json.dumps`, without the escaping of HTML that
//! Jinja's own filter does.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::python::{charge, float_repr, MAX_DEPTH};

/// The options of `json.dumps` that templates use.
struct Dumps<'a, 't, 'e> {
    state: &'a State<'t, 'e>,
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
}

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn tojson(state: &State, value: Value, positional: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        let named = kwargs.get::<Option<Value>>(name)?;
        Ok(named.or_else(|| positional.get(index).cloned()).filter(|v| !v.is_none()))
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = match argument(1, "indent")? {
        None => None,
        Some(v) if v.as_str().is_some() => v.as_str().map(str::to_owned),
        Some(v) => {
            let width = v.as_usize().filter(|&w| w <= 100).ok_or_else(|| {
                Error::new(ErrorKind::InvalidOperation, "tojson: indent must be 0 to 100 or a string")
            })?;
            Some(" ".repeat(width))
        }
    };
    let (item_separator, key_separator) = match argument(2, "separators")? {
        Some(pair) => {
            let part = |i: usize| -> Result<String, Error> {
                let item = pair.get_item_by_index(i)?;
                item.as_str().map(str::to_owned).ok_or_else(|| {
                    Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings")
                })
            };
            (part(0)?, part(1)?)
        }
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let dumps = Dumps { state, ensure_ascii, sort_keys, indent, item_separator, key_separator };
    let mut out = String::new();
    dumps.write(&mut out, &value, 0)?;
    Ok(Value::from(out))
}

impl Dumps<'_, '_, '_> {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: value is nested too deeply"));
        }
        let layout = self.indent.as_ref().map_or(0, |i| i.len() * depth)
            + self.item_separator.len()
            + self.key_separator.len();
        charge(self.state, value.as_str().map_or(0, str::len) + layout)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => self.string(out, value.as_str().unwrap_or_default()),
            ValueKind::Number if value.is_integer() => {
                write!(out, "{value}").map_err(|_| Error::from(ErrorKind::WriteFailure))?;
            }
            ValueKind::Number => out.push_str(&json_float(f64::try_from(value.clone())?)),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                self.group(out, ('[', ']'), depth, items, |out, item| {
                    self.write(out, &item, depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut entries = Vec::new();
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    charge(self.state, key.as_str().map_or(0, str::len))?;
                    entries.push((key_text(&key)?, value.get_item(&key)?));
                }
                if self.sort_keys {
                    entries.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.group(out, ('{', '}'), depth, entries, |out, (key, item)| {
                    self.string(out, &key);
                    out.push_str(&self.key_separator);
                    self.write(out, &item, depth + 1)
                })?;
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("tojson: {kind} is not JSON serializable"),
                ))
            }
        }
        Ok(())
    }

    fn group<T>(
        &self,
        out: &mut String,
        brackets: (char, char),
        depth: usize,
        items: Vec<T>,
        mut each: impl FnMut(&mut String, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let empty = items.is_empty();
        out.push(brackets.0);
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.push_str(&self.item_separator);
            }
            self.line(out, depth + 1);
            each(out, item)?;
        }
        if !empty {
            self.line(out, depth);
        }
        out.push(brackets.1);
        Ok(())
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ensure_ascii && c as u32 > 0x7e) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn json_float(x: f64) -> String {
    if x.is_nan() {
        "NaN".into()
    } else if x.is_infinite() {
        if x > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        float_repr(x)
    }
}

/// Keys of `json.dumps`: numbers, booleans and None become strings.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.into()),
        ValueKind::Number if key.is_integer() => Ok(key.to_string()),
        ValueKind::Number => Ok(json_float(f64::try_from(key.clone())?)),
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: keys must be strings, not {kind}"))),
    }
}
