//! Programs as folders of files that others build and use, without us.

pub mod c;

use std::io::{self, Write};

use ir_core::{Spread, TensorData};

use crate::ALIGNMENT;
use crate::program::Layout;

/// A program, as its users see it.
#[derive(Clone, Debug)]
pub struct Model {
    /// What its functions and files are called: a name in the target's language.
    pub name: String,
    /// Where it comes from, for readers.
    pub source: String,
    /// The main kernel.
    pub main: String,
    /// The inputs of the main kernel.
    pub inputs: Vec<Input>,
    /// Names of the results in the program; without one, `out_0` and so on.
    pub outputs: Vec<String>,
    /// What the seeds of its inputs were made from, for readers.
    pub seed: u64,
    /// What surrounds the kernels.
    pub layout: Layout,
    /// What the failure of each check says, and where it comes from, in the order of the program; of a
    /// whole program what each of its [sites](prog::sites) says.
    pub messages: Vec<String>,
    /// What else there is to a whole program.
    pub program: Option<Program>,
}

/// What a whole program takes and gives besides tensors, and where it may run out of memory.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The columns of the data that it takes.
    pub taken: Vec<Column>,
    /// Those of the data that it gives.
    pub given: Vec<Column>,
    /// Of each site, whether it is one for want of memory.
    pub memory: Vec<bool>,
}

/// A column of data that a program takes or gives.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in the program, such as `x.Node.0`.
    pub name: String,
    /// What it is.
    pub column: prog::columns::Column,
    /// What its numbers mean, for readers; empty where there is nothing to say.
    pub note: String,
    /// An example, of a column that is taken.
    pub example: Option<TensorData>,
}

/// An input of a program.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name in the program.
    pub name: String,
    /// Where the numbers that [`Random::tensor_within`](ir_core::Random::tensor_within) makes for
    /// an example start.
    pub seed: u64,
    /// Where the floats among them lie.
    pub spread: Spread,
    /// An example, instead of such numbers.
    pub example: Option<TensorData>,
}

/// A file of a program.
#[derive(Clone, Debug)]
pub struct File {
    /// Name, relative to the folder; parts are separated by `/`.
    pub name: String,
    /// What it holds.
    pub contents: Contents,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub enum Contents {
    /// Text.
    Text(String),
    /// The elements of tensors in the byte order of this machine, each at a multiple of
    /// [`ALIGNMENT`] bytes.
    Tensors(Vec<TensorData>),
    /// Words in the byte order of this machine.
    Words(Vec<u32>),
}

impl Contents {
    /// Writes them to `out`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let tensors = match self {
            Contents::Text(text) => return out.write_all(text.as_bytes()),
            Contents::Words(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                return out.write_all(&bytes);
            }
            Contents::Tensors(tensors) => tensors,
        };
        let mut padding = 0;
        for tensor in tensors {
            out.write_all(&[0; ALIGNMENT][..padding])?;
            let bytes = tensor.bytes();
            out.write_all(bytes)?;
            padding = bytes.len().next_multiple_of(ALIGNMENT) - bytes.len();
        }
        Ok(())
    }
}
