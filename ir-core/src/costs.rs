//! What kernels cost on a machine: plain data that targets give, and that whoever chooses between
//! programs counts by.
//!
//! A pass takes a table as an option. Its text is the figures, or the name of a target, for which
//! the figures are written when the pipeline is read: see [`OptionValue::settle`].

use crate::diagnostics::Diagnostics;
use crate::pass::OptionValue;
use crate::registry::Registry;

/// How long kernels take on a machine, for choosing between programs: a launch, and then the longer
/// of the memory that is read and written and of the arithmetic. Orders of magnitude, not promises.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostTable {
    /// Microseconds to start a kernel.
    pub launch: f64,
    /// How fast kernels read and write, in GB/s.
    pub bandwidth: f64,
    /// Billions of plain operations in a second, such as additions of each element.
    pub arithmetic: f64,
    /// The same of products and convolutions, where a multiply-add counts as two.
    pub products: f64,
    /// Billions of transcendental functions in a second, such as exponentials of each element.
    pub transcendental: f64,
}

/// A kind of arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// Additions and the like.
    Plain,
    /// Multiply-adds of products and convolutions.
    Product,
    /// Exponentials and the like.
    Transcendental,
}

/// Plain operations that a transcendental function takes, where a table does not say.
const TRANSCENDENTAL: f64 = 16.0;

impl CostTable {
    /// A core of a processor, whatever the machine that we run on: the default of whoever counts.
    pub const NOMINAL: CostTable = CostTable::new(1.0, 20.0, 100.0);

    /// A machine of which no more is known than this; products are as fast as plain operations.
    pub const fn new(launch: f64, bandwidth: f64, arithmetic: f64) -> CostTable {
        let transcendental = arithmetic / TRANSCENDENTAL;
        CostTable { launch, bandwidth, arithmetic, products: arithmetic, transcendental }
    }

    /// Microseconds of a kernel that reads and writes `bytes` and computes for `computing`
    /// microseconds.
    pub fn kernel(&self, bytes: f64, computing: f64) -> f64 {
        self.launch + (bytes / (self.bandwidth * 1e3)).max(computing)
    }

    /// Microseconds of so many operations.
    pub fn computing(&self, kind: Arithmetic, operations: f64) -> f64 {
        let rate = match kind {
            Arithmetic::Plain => self.arithmetic,
            Arithmetic::Product => self.products,
            Arithmetic::Transcendental => self.transcendental,
        };
        operations / (rate * 1e3)
    }

    /// The figures by name, in the order of the text.
    pub fn figures(&self) -> [(&'static str, f64); 5] {
        [
            ("launch", self.launch),
            ("bandwidth", self.bandwidth),
            ("arithmetic", self.arithmetic),
            ("products", self.products),
            ("transcendental", self.transcendental),
        ]
    }

    /// Whether times can be counted by it: rates are above zero, a launch is not below, and all are
    /// finite.
    pub fn is_sound(&self) -> bool {
        let CostTable { launch, bandwidth, arithmetic, products, transcendental } = *self;
        let rates = [bandwidth, arithmetic, products, transcendental];
        launch.is_finite()
            && launch >= 0.0
            && rates.iter().all(|rate| rate.is_finite() && *rate > 0.0)
    }
}

impl Default for CostTable {
    fn default() -> CostTable {
        CostTable::NOMINAL
    }
}

/// Figures are written `launch=1,bandwidth=20`, in braces where they stand in a pipeline. Those
/// that are left out are the nominal ones; products and transcendental functions follow
/// `arithmetic`.
impl OptionValue for CostTable {
    const EXPECTS: &'static str =
        "a target, or figures such as {launch=1,bandwidth=20,arithmetic=100}, rates above zero";

    fn parse(text: &str) -> Option<CostTable> {
        let names = CostTable::NOMINAL.figures().map(|(name, _)| name);
        let mut given = [None; 5];
        for figure in text.split(',') {
            let (name, value) = figure.split_once('=')?;
            let place = names.iter().position(|known| *known == name.trim())?;
            if given[place].replace(value.trim().parse::<f64>().ok()?).is_some() {
                return None;
            }
        }
        let [launch, bandwidth, arithmetic, products, transcendental] = given;
        let nominal = CostTable::NOMINAL;
        let table = CostTable::new(
            launch.unwrap_or(nominal.launch),
            bandwidth.unwrap_or(nominal.bandwidth),
            arithmetic.unwrap_or(nominal.arithmetic),
        );
        let products = products.unwrap_or(table.products);
        let transcendental = transcendental.unwrap_or(table.transcendental);
        let table = CostTable { products, transcendental, ..table };
        table.is_sound().then_some(table)
    }

    fn print(&self) -> String {
        self.figures().map(|(name, value)| format!("{name}={value}")).join(",")
    }

    /// The figures of a target that is named. Figures stay as they are.
    fn settle(text: &str, registry: &Registry) -> Result<String, Diagnostics> {
        let is_name = text.split('{').next().is_some_and(|name| !name.contains('='));
        match registry.extension::<CostsByName>() {
            Some(CostsByName(Some(costs))) if is_name => {
                costs(registry, text).map(|table| table.print())
            }
            _ => Ok(text.to_string()),
        }
    }
}

/// What tells the costs of a machine by its name. A registry keeps one, that of its targets.
#[derive(Clone, Copy, Default)]
pub struct CostsByName(pub Option<fn(&Registry, &str) -> Result<CostTable, Diagnostics>>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_checked_and_read_back() {
        let written = CostTable::parse("launch=0.25, bandwidth=12,arithmetic=64,products=90");
        let table = CostTable { launch: 0.25, bandwidth: 12.0, ..CostTable::NOMINAL };
        let table = CostTable { arithmetic: 64.0, products: 90.0, transcendental: 4.0, ..table };
        assert_eq!(written, Some(table));
        assert_eq!(CostTable::parse(&table.print()), Some(table));
        assert_eq!(CostTable::parse("launch=0"), Some(CostTable::new(0.0, 20.0, 100.0)));
        let wrong = [
            "",
            "c",
            "launch=-1",
            "launch=NaN",
            "bandwidth=0",
            "bandwidth=inf",
            "arithmetic=-5",
            "products=NaN",
            "transcendental=0",
            "launch",
            "launch=1,launch=2",
            "speed=1",
        ];
        for text in wrong {
            assert_eq!(CostTable::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_kernel_takes_a_launch_and_the_longer_of_memory_and_arithmetic() {
        let table = CostTable::NOMINAL;
        assert_eq!(table.kernel(40e3, 1.0), 3.0);
        assert_eq!(table.kernel(40e3, table.computing(Arithmetic::Product, 500e3)), 6.0);
        let exponentials = table.computing(Arithmetic::Transcendental, 100e3);
        assert_eq!(exponentials, table.computing(Arithmetic::Plain, 1600e3));
    }
}
