"""Follows a folder that receives captures: closed files are read in batches, and each batch leaves a state for the
next.
"""
