"""Suites that need a control plane and KWOK, and no root."""
