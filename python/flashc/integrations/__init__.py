"""Integrations: modules through which a framework loads flashc without changes to the framework's programs.

Each module translates the arguments of one framework, and is imported by itself, since it imports that framework.
docs/integrations.md lists the modules.
"""
