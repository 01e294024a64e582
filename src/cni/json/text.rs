use std::borrow::Cow;

/// The text that stands between two quotes. Borrowed where it stands for itself.
pub(super) fn decode(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\')
        && let Ok(plain) = std::str::from_utf8(raw)
    {
        return Cow::Borrowed(plain);
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        push_bytes(&mut text, plain);
        rest = push_escape(&mut text, escape.get(1..).unwrap_or_default());
    }
    push_bytes(&mut text, rest);
    Cow::Owned(text)
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        // One mark per byte, as Go has it.
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Adds what an escape stands for, and returns what is behind it. `escape` starts behind the backslash.
fn push_escape<'a>(text: &mut String, escape: &'a [u8]) -> &'a [u8] {
    let Some((&letter, rest)) = escape.split_first() else {
        return escape;
    };
    let c = match letter {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return push_unicode(text, rest),
        other => char::from(other),
    };
    text.push(c);
    rest
}

/// `\uXXXX`, or two of them that are a surrogate pair.
fn push_unicode<'a>(text: &mut String, digits: &'a [u8]) -> &'a [u8] {
    let Some((first, rest)) = unit(digits) else {
        return digits;
    };
    let second = rest.strip_prefix(b"\\u").and_then(unit);
    if let Some((second, behind)) = second
        && let Some(Ok(c)) = char::decode_utf16([first, second]).next()
        && c > '\u{ffff}'
    {
        text.push(c);
        return behind;
    }
    text.push(char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER));
    rest
}

fn unit(digits: &[u8]) -> Option<(u16, &[u8])> {
    let (unit, rest) = digits.split_at_checked(4)?;
    let unit = u16::from_str_radix(std::str::from_utf8(unit).ok()?, 16).ok()?;
    Some((unit, rest))
}
