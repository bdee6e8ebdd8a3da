//! The parts of Python that chat templates rely on and `minijinja` does not have: how values are
//! printed, methods of `str`, `strftime` (`json.dumps` is in `json_dumps`). Templates are written for
//! `transformers` (`utils/chat_template_utils.py`), so that is what is followed.

use std::fmt::Write;

use minijinja::value::{from_args, Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Nesting beyond this is refused; it bounds the native stack.
pub const MAX_DEPTH: usize = 100;

/// Charges a render for one value of which `bytes` bytes are printed; a list that holds another
/// one many times has many more values to print than it took work to build.
pub fn charge(state: &State, bytes: usize) -> Result<(), Error> {
    // minijinja sells 64 bytes for one unit.
    state.consume_fuel(1 + bytes as u64 / 64)
}

/// Appends `value` as Python's `str()` prints it.
pub fn write_str(out: &mut String, state: &State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => {
            out.push_str(value.as_str().unwrap_or_default());
            Ok(())
        }
        _ => write_repr(out, state, value, 0),
    }
}

/// Appends `value` as Python's `repr()` prints it.
fn write_repr(out: &mut String, state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "value is nested too deeply"));
    }
    charge(state, value.as_str().map_or(0, str::len))?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::String => string_repr(out, value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => out.push_str(&float_repr(float(value)?)),
        ValueKind::Seq => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter()?.checked() {
                if count > 0 {
                    out.push_str(", ");
                }
                write_repr(out, state, &item?, depth + 1)?;
                count += 1;
            }
            if tuple && count == 1 {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map if value.as_object().is_some_and(|o| o.is_enumerable_map()) => {
            out.push('{');
            for (index, key) in value.try_iter()?.checked().enumerate() {
                let key = key?;
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, state, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, state, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        _ => write!(out, "{value}").map_err(|_| Error::from(ErrorKind::WriteFailure))?,
    }
    Ok(())
}

trait EnumerableMap {
    fn is_enumerable_map(&self) -> bool;
}

impl EnumerableMap for minijinja::value::DynObject {
    /// Objects such as `loop` are maps that cannot list their keys.
    fn is_enumerable_map(&self) -> bool {
        self.try_iter().is_some()
    }
}

fn float(value: &Value) -> Result<f64, Error> {
    f64::try_from(value.clone())
}

/// `repr(float)`: the shortest digits that read back, with an exponent outside of 1e-4..1e16.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{x:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let mut plain = format!("{x}");
    if !plain.contains('.') {
        plain.push_str(".0");
    }
    plain
}

fn string_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c != ' ' && (c.is_control() || c.is_whitespace() || c == '\u{ad}') => {
                let code = c as u32;
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    _ => write!(out, "\\u{code:04x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Jinja's `sequence` and `iterable` tests ask for `__len__` and `__iter__`, which strings, maps
/// and undefined values have too.
pub fn is_sequence(value: Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Bytes | ValueKind::Undefined
    )
}

/// See `is_sequence`.
pub fn is_iterable(value: Value) -> bool {
    is_sequence(value.clone()) || value.kind() == ValueKind::Iterable
}

/// Jinja's `indent(width=4, first=False, blank=False)`. minijinja's own drops a newline at the end,
/// which templates use to lay out JSON.
pub fn indent(state: &State, text: String, positional: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        Ok(kwargs.get::<Option<Value>>(name)?.or_else(|| positional.get(index).cloned()))
    };
    let indention = match argument(0, "width")? {
        None => " ".repeat(4),
        Some(v) if v.as_str().is_some() => v.as_str().unwrap_or_default().to_owned(),
        Some(v) => {
            let width = v.as_usize().filter(|&w| w <= 1000).ok_or_else(|| {
                Error::new(ErrorKind::InvalidOperation, "indent: width must be 0 to 1000 or a string")
            })?;
            " ".repeat(width)
        }
    };
    let first = argument(1, "first")?.is_some_and(|v| v.is_true());
    let blank = argument(2, "blank")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let n_lines = 1 + text.matches('\n').count();
    charge(state, n_lines.saturating_mul(indention.len()))?;
    let mut out = String::with_capacity(text.len());
    // The text with one newline more, split at newlines.
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if index > 0 {
            out.push('\n');
        }
        let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
        if is_indented {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Methods of `str`, `list` and `dict`: those of `minijinja-contrib` and the rest of the ones that
/// published templates call.
pub fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        if name == "format" {
            charge(state, requested_bytes(text))?;
        }
        if let Some(result) = string_method(text, name, args) {
            return result;
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

/// The sum of the numbers in the braces of a `str.format` string: no less than the padding that its
/// widths and precisions ask for.
fn requested_bytes(format: &str) -> usize {
    let (mut sum, mut number, mut inside) = (0usize, 0usize, false);
    for c in format.bytes() {
        match c {
            b'0'..=b'9' if inside => {
                number = number.saturating_mul(10).saturating_add((c - b'0') as usize);
            }
            _ => {
                sum = sum.saturating_add(std::mem::take(&mut number));
                // Doubled braces stand for themselves.
                inside = (c == b'{' && !inside) || (inside && !matches!(c, b'{' | b'}'));
            }
        }
    }
    sum
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let found = |at: Option<usize>| match at {
        Some(at) => Ok(Value::from(text[..at].chars().count())),
        None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
    };
    let strings = |parts: [&str; 3]| Value::from(minijinja::value::Tuple::from(parts.map(Value::from)));
    let one = || from_args::<(&str,)>(args).map(|(s,)| s);
    Some(match name {
        "index" => one().and_then(|s| found(text.find(s))),
        "rindex" => one().and_then(|s| found(text.rfind(s))),
        "removeprefix" => one().map(|s| Value::from(text.strip_prefix(s).unwrap_or(text))),
        "removesuffix" => one().map(|s| Value::from(text.strip_suffix(s).unwrap_or(text))),
        "partition" => separator(one()).map(|s| match text.split_once(s) {
            Some((before, after)) => strings([before, s, after]),
            None => strings([text, "", ""]),
        }),
        "rpartition" => separator(one()).map(|s| match text.rsplit_once(s) {
            Some((before, after)) => strings([before, s, after]),
            None => strings(["", "", text]),
        }),
        "rsplit" => from_args::<(Option<&str>, Option<i64>)>(args)
            .and_then(|(s, limit)| rsplit(text, s, limit)),
        "casefold" => from_args::<()>(args).map(|()| Value::from(text.to_lowercase())),
        "isdecimal" => from_args::<()>(args).map(|()| {
            Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()))
        }),
        "zfill" => width(args).map(|(width, _)| {
            let (sign, digits) = match text.strip_prefix(['+', '-']) {
                Some(rest) => text.split_at(text.len() - rest.len()),
                None => ("", text),
            };
            let zeros = "0".repeat(width.saturating_sub(text.chars().count()));
            Value::from(format!("{sign}{zeros}{digits}"))
        }),
        "ljust" | "rjust" | "center" => width(args).map(|(width, fill)| {
            let missing = width.saturating_sub(text.chars().count());
            let left = match name {
                "ljust" => 0,
                "rjust" => missing,
                // As CPython rounds (`unicode_center`).
                _ => missing / 2 + (missing & width & 1),
            };
            let pad = |n: usize| fill.to_string().repeat(n);
            Value::from(format!("{}{text}{}", pad(left), pad(missing - left)))
        }),
        _ => return None,
    })
}

fn separator(text: Result<&str, Error>) -> Result<&str, Error> {
    match text {
        Ok("") => Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        other => other,
    }
}

/// A field width, capped so that a template cannot ask for gigabytes, and the fill character.
fn width(args: &[Value]) -> Result<(usize, char), Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let mut chars = fill.unwrap_or(" ").chars();
    match (chars.next(), chars.next(), width) {
        (Some(fill), None, ..=65_536) => Ok((width.max(0) as usize, fill)),
        (Some(_), None, _) => Err(Error::new(ErrorKind::InvalidOperation, "width above 65536")),
        _ => Err(Error::new(ErrorKind::InvalidOperation, "the fill character must be one character")),
    }
}

fn rsplit(text: &str, sep: Option<&str>, limit: Option<i64>) -> Result<Value, Error> {
    let limit = limit.filter(|&n| n >= 0).map_or(usize::MAX, |n| n as usize);
    let mut parts: Vec<&str> = Vec::new();
    match sep {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(sep) => parts.extend(text.rsplitn(limit.saturating_add(1), sep)),
        None => {
            let mut rest = text.trim_end();
            while !rest.is_empty() {
                if parts.len() == limit {
                    parts.push(rest);
                    break;
                }
                let start = rest.rfind(char::is_whitespace).map_or(0, |at| {
                    at + rest[at..].chars().next().map_or(0, char::len_utf8)
                });
                parts.push(&rest[start..]);
                rest = rest[..start].trim_end();
            }
        }
    }
    parts.reverse();
    Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
}

/// `datetime.fromtimestamp(now_s).strftime(format)` in local time. Python hands the format to the
/// C library, and so does this.
pub fn strftime(format: &str, now_s: i64) -> Result<String, Error> {
    let bad = |why: &'static str| Error::new(ErrorKind::InvalidOperation, why);
    if format.is_empty() {
        return Ok(String::new());
    }
    if format.len() > 1024 {
        return Err(bad("strftime_now: the format is longer than 1024 bytes"));
    }
    let c_format = std::ffi::CString::new(format).map_err(|_| bad("strftime_now: the format has a NUL byte"))?;
    let time = now_s as libc::time_t;
    // SAFETY: `tm` is plain data for which all zeros is valid; localtime_r writes only to it.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    if unsafe { libc::localtime_r(&time, &mut parts) }.is_null() {
        return Err(bad("strftime_now: the time is out of range"));
    }
    let mut buffer = vec![0u8; 64 * 1024];
    // SAFETY: the buffer is writable for its whole length and the format ends with NUL.
    let length = unsafe {
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), c_format.as_ptr(), &parts)
    };
    buffer.truncate(length);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        let cases = [
            (1.0, "1.0"), (0.1, "0.1"), (1e16, "1e+16"), (1e15, "1000000000000000.0"),
            (1.5e-5, "1.5e-05"), (0.0001, "0.0001"), (-0.0, "-0.0"), (1e100, "1e+100"),
            (123456.789, "123456.789"), (f64::INFINITY, "inf"), (f64::NAN, "nan"),
        ];
        for (x, text) in cases {
            assert_eq!(float_repr(x), text);
        }
    }

    #[test]
    fn strings_are_quoted_as_in_python() {
        let repr = |s: &str| {
            let mut out = String::new();
            string_repr(&mut out, s);
            out
        };
        assert_eq!(repr("a"), "'a'");
        assert_eq!(repr("it's"), "\"it's\"");
        assert_eq!(repr("'\""), r#"'\'"'"#);
        assert_eq!(repr("a\n\u{0}\u{a0}é\\"), r"'a\n\x00\xa0é\\'");
    }

    #[test]
    fn time_is_formatted_by_the_c_library() {
        assert_eq!(strftime("%Y", 1_700_000_000).unwrap(), "2023");
        assert_eq!(strftime("%b %Y", 1_700_000_000).unwrap(), "Nov 2023");
        assert_eq!(strftime("", 0).unwrap(), "");
        assert!(strftime("a\0b", 0).is_err());
    }
}
