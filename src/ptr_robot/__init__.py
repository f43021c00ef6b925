"""Post-train robot policies on demonstrations of mixed quality."""

__version__ = "0.1.0"
