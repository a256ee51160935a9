//! Files in base64: which of them are looked into (ADR 0069). A picture is one where it says so and begins like one;
//! everything else may be text that somebody reads.

use super::LiteralKind;
use crate::result::edit::units::decoded;

/// What the MIME type beside a file says. Where several are given, the one that promises least counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// Nothing was said yet.
    Missing,
    /// A picture, a sound, a film, a font, an archive.
    Binary,
    /// Text, or anything else: nobody knows what reads it.
    Other,
}

impl Label {
    /// What `mimeType` says; parameters do not count.
    pub(super) fn of(raw: &[u8]) -> Self {
        let text = decoded(raw).to_ascii_lowercase();
        let essence = text.split(';').next().unwrap_or_default().trim();
        let family = essence.split('/').next().unwrap_or_default();
        let is_text = essence.ends_with("+xml") || essence.ends_with("+json");
        let is_binary = matches!(family, "image" | "audio" | "video" | "font") || ARCHIVES.contains(&essence);
        if is_binary && !is_text {
            Self::Binary
        } else {
            Self::Other
        }
    }

    /// Together with what was said before.
    pub(super) fn and(self, told: Self) -> Self {
        match (self, told) {
            (Self::Missing | Self::Binary, Self::Binary) => Self::Binary,
            (Self::Missing | Self::Binary | Self::Other, _) => Self::Other,
        }
    }
}

/// Whether a literal is the bytes of a picture, a sound or a file in base64, and not a text in their place.
pub(super) fn is_encoded(kind: LiteralKind, raw: &[u8]) -> bool {
    let sign = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\\');
    kind == LiteralKind::Text && raw.len() >= SHORTEST_FILE && raw.iter().all(sign)
}

/// Whether base64 begins as pictures, sounds and archives do.
pub(super) fn begins_as_binary(raw: &[u8]) -> bool {
    let head: Vec<u8> = raw.iter().copied().filter(|sign| *sign != b'\\').take(HEAD).collect();
    let bytes = crate::detect::decode_base64(&head);
    BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning)) || bytes.get(4..8) == Some(b"ftyp")
}

/// No picture, sound or file worth sending has fewer characters in base64; a secret may.
const SHORTEST_FILE: usize = 64;

/// Characters that the beginning is told by.
const HEAD: usize = 16;

const ARCHIVES: [&str; 6] = [
    "application/pdf",
    "application/zip",
    "application/gzip",
    "application/x-gzip",
    "application/wasm",
    "application/x-tar",
];

/// PNG, JPEG, GIF, WebP and WAVE, BMP, TIFF, icons, MP3, Ogg, FLAC, Matroska, PDF, ZIP, gzip, zstd, xz, WebAssembly, fonts.
const BEGINNINGS: [&[u8]; 25] = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
    b"RIFF",
    b"BM",
    b"II*\0",
    b"MM\0*",
    b"\0\0\x01\0",
    b"ID3",
    b"\xff\xfb",
    b"\xff\xf3",
    b"\xff\xf1",
    b"OggS",
    b"fLaC",
    b"\x1a\x45\xdf\xa3",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"\0asm",
    b"wOFF",
    b"wOF2",
    b"OTTO",
];
