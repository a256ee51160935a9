//! The tap that sees what found no door: UDP that is not for the name service, and the refusal of each TCP connection.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

use crate::sys::{self, Instruction};

/// A packet socket whose packets start at the IP header. To be made before the loopback is up, so that nothing can
/// pass it before its filter is there.
pub(crate) fn tap() -> io::Result<OwnedFd> {
    let everything = std::num::NonZeroU32::new(u32::from((libc::ETH_P_ALL as u16).to_be()));
    let socket = socket_with(
        AddressFamily::PACKET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        everything.map(Protocol::from_raw),
    )?;
    sys::attach_filter(&socket, &PROGRAM)?;
    Ok(socket)
}

/// Jumps are counted from the next instruction; each line says its own number and where it leads. A refused SYN shows as
/// RST+ACK with sequence number 0; connections among the server's own processes do not.
const PROGRAM: [Instruction; 35] = [
    load_word(PACKET_TYPE),        // 0
    equal(PACKET_OUTGOING, 32, 0), // 1, yes: 34; the loopback shows each packet twice: keep the one that arrives
    load_byte(0),                  // 2
    shift_right(4),                // 3
    equal(4, 1, 0),                // 4, yes: 6
    equal(6, 15, 28),              // 5, yes: 21; no: 34
    load_half(6),                  // 6
    any_bit(0x1fff, 26, 0),        // 7, yes: 34; only first fragments have ports
    load_header_length(0),         // 8
    load_byte(9),                  // 9
    equal(UDP, 0, 4),              // 10, no: 15
    load_half_indexed(0),          // 11
    equal(NAME_SERVICE, 21, 0),    // 12, yes: 34; an answer of the resolver
    load_half_indexed(2),          // 13
    equal(NAME_SERVICE, 19, 18),   // 14, yes: 34; no: 33; a question to the resolver
    equal(TCP, 0, 18),             // 15, no: 34
    load_byte_indexed(13),         // 16
    mask(FLAGS),                   // 17
    equal(RST_ACK, 0, 15),         // 18, no: 34
    load_word_indexed(4),          // 19
    equal(0, 12, 13),              // 20, yes: 33; no: 34
    load_byte(6),                  // 21
    equal(UDP, 0, 4),              // 22, no: 27
    load_half(40),                 // 23
    equal(NAME_SERVICE, 9, 0),     // 24, yes: 34
    load_half(42),                 // 25
    equal(NAME_SERVICE, 7, 6),     // 26, yes: 34; no: 33
    equal(TCP, 0, 6),              // 27, no: 34
    load_byte(53),                 // 28
    mask(FLAGS),                   // 29
    equal(RST_ACK, 0, 3),          // 30, no: 34
    load_word(44),                 // 31
    equal(0, 0, 1),                // 32, yes: 33; no: 34
    keep(),                        // 33
    drop_it(),                     // 34
];

const PACKET_OUTGOING: u32 = 4;
const UDP: u32 = 17;
const TCP: u32 = 6;
const NAME_SERVICE: u32 = 53;
/// FIN, SYN, RST and ACK; the others do not matter.
const FLAGS: u32 = 0x17;
const RST_ACK: u32 = 0x14;
/// SKF_AD_OFF + SKF_AD_PKTTYPE: what the kernel knows of a packet beside its bytes.
const PACKET_TYPE: u32 = 0xffff_f004;
/// As much of a packet as its reader needs: the headers.
const SNAP: u32 = 128;

const fn instruction(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

const fn equal(k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code: 0x15, jt, jf, k }
}

const fn any_bit(k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code: 0x45, jt, jf, k }
}

const fn load_word(offset: u32) -> Instruction {
    instruction(0x20, offset)
}

const fn load_half(offset: u32) -> Instruction {
    instruction(0x28, offset)
}

const fn load_byte(offset: u32) -> Instruction {
    instruction(0x30, offset)
}

const fn load_word_indexed(offset: u32) -> Instruction {
    instruction(0x40, offset)
}

const fn load_half_indexed(offset: u32) -> Instruction {
    instruction(0x48, offset)
}

const fn load_byte_indexed(offset: u32) -> Instruction {
    instruction(0x50, offset)
}

/// The index becomes the length of the IPv4 header whose first byte is at `offset`.
const fn load_header_length(offset: u32) -> Instruction {
    instruction(0xb1, offset)
}

const fn shift_right(by: u32) -> Instruction {
    instruction(0x74, by)
}

const fn mask(bits: u32) -> Instruction {
    instruction(0x54, bits)
}

const fn keep() -> Instruction {
    instruction(0x06, SNAP)
}

const fn drop_it() -> Instruction {
    instruction(0x06, 0)
}
