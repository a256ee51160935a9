//! One binary for every test that drives the shipped `portreeve` from outside, and for the rules the repository sets itself.

#[cfg(test)]
mod adversarial;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod chokepoint;
#[cfg(test)]
mod end_to_end;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod support;
