"""What several folders of tests share: machines made up or recorded, stand-ins, places."""
