"""Post-train robot policies on demonstrations of mixed quality."""

__version__ = "0.2.0"
