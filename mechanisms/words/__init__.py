"""Mechanisms that replace words one by one."""
