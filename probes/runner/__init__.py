"""The process around a probe: started, watched, heard and ended."""
