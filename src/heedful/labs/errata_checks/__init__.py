"""Formulas that circulate in a wrong form, checked one by one."""
